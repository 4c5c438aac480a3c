#!/usr/bin/env python3
"""Published benchmarks as files of questions, scored by the benchmarks' own programs.

    convert.py questions BENCHMARK TASK FILE PROGRAMS >questions.jsonl
    retain eval questions.jsonl --policy keeper --budget 1024 --results results.jsonl
    convert.py score BENCHMARK TASK FILE PROGRAMS results.jsonl

FILE is the benchmark's data for that task (JSON lines or a list), PROGRAMS a clone of its repository: prompts,
lengths of answers and scorers are read from there, and need its packages.

    infinitebench   OpenBMB/InfiniteBench          longbench, longbench-v2   THUDM/LongBench (task hotpotqa, qasper_e, ...)
    leval           OpenLMLab/LEval                longmemeval               xiaowu0162/LongMemEval: prints what its judge reads
    ruler           NVIDIA/RULER (niah, qa, ...)   locomo                    snap-research/locomo
"""
import ast
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import types

MARK = "\ufdd0"  # stands for the document while a prompt is made
RULER = {"niah": "niah", "vt": "variable_tracking", "cwe": "common_words_extraction", "fwe": "freq_words_extraction", "qa": "qa"}
FACT = "Please directly answer without any additional output or explanation. \nAnswer:"  # L-Eval asks sci_fi twice


def read(path):
    return open(os.path.join(programs, path), encoding="utf-8").read()


def part(path, start, end="\0", **names):
    """The lines of a program from one text to another, without its imports; a dictionary of its names."""
    text = read(path) + "\0"
    exec(text[text.index(start):text.index(end, text.index(start))], names)
    return names


def module(folder, name):
    sys.path.insert(0, os.path.join(programs, folder))
    return __import__(name)


def question(prompt, context, answers, tokens, **more):
    """`prompt` has MARK at the place of the document, or is all of it."""
    before, mark, after = prompt.partition(MARK)
    if context.endswith("\n") and not after[:1].isspace():  # else retain puts an empty line between them
        context, after = context[:-1], "\n" + after
    return {"before": before if mark else "", "context": context if mark else "",
            "question": after if mark else prompt, "answers": answers, "max_tokens": tokens,
            **{k: v for k, v in more.items() if v}}


def longbench_name():
    return task.removesuffix("_e")


# ---- questions: a record may hold several ------------------------------------------------------------------------------


def infinitebench(r):
    program = module("src", "eval_utils")
    answers = program.get_answer(r, task)
    answers = answers[0] if isinstance(answers, list) and isinstance(answers[0], list) else answers
    yield question(program.create_prompt({**r, "context": MARK}, task, "yarn-mistral", "."), r["context"], answers,
                   program.DATA_NAME_TO_MAX_NEW_TOKENS[task], id=str(r["id"]))


def longbench(r):
    name = longbench_name()
    prompt = json.loads(read("LongBench/config/dataset2prompt.json"))[name].format(**{**r, "context": MARK})
    group = "0-4k" if r["length"] < 4000 else "4-8k" if r["length"] < 8000 else "8k+"
    yield question(prompt, r["context"], r["answers"], json.loads(read("LongBench/config/dataset2maxlen.json"))[name],
                   id=r["_id"], group=group, metric="f1",
                   raw=name in ("trec", "triviaqa", "samsum", "lsht", "lcc", "repobench-p"))


def longbench_v2(r):
    prompt = read("prompts/0shot.txt").replace("$DOC$", MARK).replace("$Q$", r["question"].strip())
    for letter in "ABCD":
        prompt = prompt.replace(f"$C_{letter}$", r["choice_" + letter].strip())
    yield question(prompt, r["context"].strip(), f"answer is ({r['answer']})", 128, id=r["_id"], group=r["difficulty"])


def leval(r):
    exam = r["evaluation"] == "exam"
    system = part("Baselines/LEval_config.py", "def get_sys_prompt", os=os)["get_sys_prompt"](
        types.SimpleNamespace(metric="exam_eval" if exam else "ngram_eval"), task)
    given = re.findall(r'context = ("Document.*?")(?: \+|\n)', read("Baselines/llama2-chat-test.py"))
    bare = any(name in task for name in ("gsm", "codeU", "topic"))
    for text, answer in zip(r["instructions"], r["outputs"]):
        prompt = "{document}\n\n{inst}" if bare else ast.literal_eval(given[0 if exam else 1])
        prompt += "" if bare or exam else f"\nAnswer this question with {len(answer.split())} words."
        yield question(prompt.replace("{document}", MARK).replace("{inst}", text), r["input"], answer, 512, system=system,
                       prefix="\nAnswer:" if exam and not bare else "", metric="" if exam else "f1",
                       group="loyalty" if "sci_fi" in task else "")
        if "sci_fi" in task:
            fact = text.replace("based on the world described in the document.",
                                "based on the real-world knowledge and facts up until your last training")
            yield question(fact + FACT, "", answer, 512, group="fact")


def ruler(r):
    row = part("scripts/data/synthetic/constants.py", "TASKS")["TASKS"][RULER[task.split("_")[0]]]
    yield question(MARK, r["input"], r["outputs"], row["tokens_to_generate"], id=str(r["index"]),
                   prefix=r.get("answer_prefix", ""), metric="" if task.startswith("qa") else "contains-all")


def longmemeval(r):
    prompt = part("src/generation/run_generation.py", "def prepare_prompt", "@backoff", json=json)["prepare_prompt"]
    words = lambda *_, **__: {"input_ids": [[]]}  # a tokenizer that never has to cut
    text = prompt(json.loads(json.dumps(r)), "orig-session", 1000, False, "json", False, words, "huggingface", 10 ** 9, None)
    start, end = text.index("History Chats:\n\n") + 16, text.rindex("\n\nCurrent Date:")
    yield question(text[:start] + MARK + text[end:], text[start:end], r["answer"], r.get("max_tokens", 500),
                   id=r["question_id"], group=r["question_type"], metric="contains-words", prefix=r.get("answer_prefix"))


def locomo(r):
    talk = json.loads(json.dumps(r.get("conversation", r)))
    for turn in (t for k, v in talk.items() if re.fullmatch(r"session_\d+", k) for t in v):
        turn.update({"clean_text": turn["text"]}, **({"img_file": turn["img_url"]} if "img_url" in turn else {}))
    names = part("task_eval/evaluate_gpts.py", "QA_PROMPT = ", "def process_ouput")
    context = part("task_eval/evaluate_gpts.py", "def get_input_context", "def get_gpt_answers", MAX_LENGTH={0: 10 ** 9},
                   PER_QA_TOKEN_BUDGET=50, print=lambda *_: None)["get_input_context"](
        talk, 0, types.SimpleNamespace(encode=str.split), types.SimpleNamespace(model=0, batch_size=1))
    speakers = [talk["speaker_a"], talk["speaker_b"]]
    for i, q in enumerate(r["qa"]):
        text, answer = q["question"], str(q.get("answer", q.get("adversarial_answer")))
        if q["category"] == 2:
            text += " Use DATE of CONVERSATION to answer with an approximate date."
        if q["category"] == 5:  # the order of the two alternates; its program draws it
            text += " Select the correct answer: (a) {} (b) {}. ".format(*locomo_options(q, i))
        prompt = names["QA_PROMPT_CAT_5" if q["category"] == 5 else "QA_PROMPT"].format(text)
        yield question(names["CONV_START_PROMPT"].format(*speakers) + MARK + "\n\n" + prompt, context,
                       "not mentioned" if q["category"] == 5 else answer, 32, group=f"category-{q['category']}",
                       metric="contains" if q["category"] == 5 else "f1", prefix=q.get("answer_prefix"))


def locomo_options(q, i):
    both = ["Not mentioned in the conversation", q["adversarial_answer"]]
    return both if i % 2 else both[::-1]


# ---- scores: records and one list of answers for each ------------------------------------------------------------------


def score_infinitebench(records, answers):
    program, labels = module("src", "compute_scores"), [module("src", "eval_utils").get_answer(r, task) for r in records]
    return program.get_score(labels, [a[0] for a in answers], task, "yarn-mistral")


def score_longbench(records, answers):
    program, columns = module("LongBench", "eval"), ([a[0] for a in answers], [r["answers"] for r in records])
    if task.endswith("_e"):
        return program.scorer_e(longbench_name(), *columns, [r["length"] for r in records], records[0]["all_classes"])
    return program.scorer(longbench_name(), *columns, records[0]["all_classes"])


def score_longbench_v2(records, answers):
    letter = part("pred.py", "def extract_answer", "def get_pred", re=re)["extract_answer"]
    right = collections.defaultdict(list)
    for r, a in zip(records, answers):
        for group in ("all", r["difficulty"], r["length"]):
            right[group].append(letter(a[0].strip()) == r["answer"])
    return {group: 100 * sum(x) / len(x) for group, x in right.items()}


def score_leval(records, answers):
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, task + ".jsonl"), "w") as out:
        for r, said in zip(records, answers):
            for i, (text, right) in enumerate(zip(r["instructions"], r["outputs"])):
                both = f"{said[2 * i]} [fact: {said[2 * i + 1]}]" if "sci_fi" in task else said[i]
                print(json.dumps({"query": text, "gt": right, "retain_pred": both, "evaluation": r["evaluation"]}), file=out)
        out.flush()
        return subprocess.run([sys.executable, "auto_eval.py", "--pred_file", out.name], check=True, text=True,
                              cwd=os.path.join(programs, "Evaluation"), stdout=subprocess.PIPE).stdout


def score_ruler(records, answers):
    rows = part("scripts/eval/synthetic/constants.py", "def string_match_part")["TASKS"]
    return rows[RULER[task.split("_")[0]]]["metric_fn"]([a[0] for a in answers], [r["outputs"] for r in records])


def score_longmemeval(records, answers):
    return "\n".join(json.dumps({"question_id": r["question_id"], "hypothesis": a[0]}) for r, a in zip(records, answers))


def score_locomo(records, answers):
    program, means = module("task_eval", "evaluation"), {}
    for k, (r, said) in enumerate(zip(records, answers)):
        qa = []
        for i, (q, a) in enumerate(zip(r["qa"], said)):
            if q["category"] == 5 and a.strip().lower() in ("a", "(a)", "b", "(b)"):
                a = locomo_options(q, i)["b" in a.lower()]
            qa.append({**q, "answer": q.get("answer", ""), "prediction": a})
        with tempfile.NamedTemporaryFile("w", suffix=".json") as out:
            json.dump({"qa": qa}, out)
            out.flush()
            values = program.eval_question_answering(out.name)[0]
        for q, value in zip(qa, values):
            means.setdefault(f"category-{q['category']}", []).append(float(value))
    return {group: sum(x) / len(x) for group, x in sorted(means.items())}


if len(sys.argv) < 6 or sys.argv[1] not in ("questions", "score"):
    sys.exit(__doc__)
action, benchmark, task, path, programs = sys.argv[1:6]
programs = os.path.abspath(programs)
data = open(path, encoding="utf-8").read()
data = json.loads(data) if data.lstrip()[:1] == "[" else [json.loads(x) for x in data.split("\n") if x.strip()]
make, score = (globals()[prefix + benchmark.replace("-", "_")] for prefix in ("", "score_"))
if action == "questions":
    for record in data:
        for asked in make(record):
            print(json.dumps(asked, ensure_ascii=False))
else:
    lines = sorted((json.loads(x) for x in open(sys.argv[6], encoding="utf-8")), key=lambda x: x["item"])
    said = iter(line["prediction"] for line in lines)
    print(score(data, [[next(said) for _ in make(record)] for record in data]))
