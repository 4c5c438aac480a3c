#!/usr/bin/env python3
"""Writes split/: recipes of the model families/llama3.model in three parts, as the gguf package
splits it. Needs gguf, and the model, which `make` writes.

    tests/golden/make_split.py        overwrites tests/golden/split
"""
import tempfile
from pathlib import Path

from gguf import GGUFReader, GGUFValueType, GGUFWriter

from drawn import key_line, write_recipe

HERE = Path(__file__).parent


def split(folder):
    reader = GGUFReader(HERE.parent.parent / "build/golden/families/llama3.gguf")
    arch = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(None, arch, split_max_tensors=(len(reader.tensors) + 2) // 3)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, sub_type=sub)
    for t in reader.tensors:
        writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    writer.write_header_to_file(folder / "llama3.gguf")
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def drawn_lines():
    """The two lines of each tensor in the whole model's recipe."""
    lines = (HERE / "families/llama3.model").read_text().splitlines()
    return {a.split()[1]: (a, b) for a, b in zip(lines, lines[1:]) if a.startswith("tensor ")}


def main():
    (HERE / "split").mkdir(exist_ok=True)
    how = drawn_lines()
    with tempfile.TemporaryDirectory() as folder:
        split(Path(folder))
        for path in sorted(Path(folder).iterdir()):
            part = GGUFReader(path)
            keys = {k: (f.types[0], f.contents()) for k, f in part.fields.items()
                    if not k.startswith(("GGUF.", "tokenizer."))}
            lines = [key_line(k, v, {GGUFValueType.UINT16: "u16", GGUFValueType.INT32: "i32"}.get(kind))
                     for k, (kind, v) in keys.items()]
            if any(k.startswith("tokenizer.") for k in part.fields):
                lines.append("vocab 300")
            lines += [line for t in part.tensors for line in how[t.name]]
            write_recipe(HERE / "split" / (path.stem + ".model"), {}, lines)


if __name__ == "__main__":
    main()
