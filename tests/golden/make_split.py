#!/usr/bin/env python3
"""Writes split/: the model families/llama3.gguf in three parts, by the gguf package. Needs gguf.

    tests/golden/make_split.py        overwrites tests/golden/split
"""
from pathlib import Path

from gguf import GGUFReader, GGUFValueType, GGUFWriter

HERE = Path(__file__).parent
reader = GGUFReader(HERE / "families/llama3.gguf")
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
(HERE / "split").mkdir(exist_ok=True)
writer.write_header_to_file(HERE / "split/llama3.gguf")
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
