#!/usr/bin/env python3
"""Writes benchmarks.json: a record in each published format, and the prompts that the benchmarks' own
programs make of it. tests/unit/test_benchmark.c compares quant/files/benchmark.h with it.

    make_benchmarks.py FOLDER

FOLDER as for make_metrics.py, and: longbench/dataset2prompt.json, dataset2maxlen.json and 0shot.txt,
infinitebench/eval_utils.py and prompt.py, leval/LEval_config.py, longmemeval/run_generation.py,
locomo/evaluate_gpts.py.
"""
import json
import os
import re
import sys
import types

folder = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(folder, "infinitebench")]


def stub(name, **fields):
    module = types.ModuleType(name)
    module.__dict__.update(fields)
    sys.modules[name] = module


def read(path):
    return open(os.path.join(folder, path), encoding="utf-8").read()


def part(path, start, end, **fields):
    """The lines of a program from one to another, run without its other packages."""
    text = read(path)
    module = types.ModuleType(path)
    module.__dict__.update(fields)
    exec(compile(text[text.index(start):text.index(end)], path, "exec"), module.__dict__)
    return module


stub("jieba", cut=None)
stub("rouge", Rouge=None)
stub("datasets", load_dataset=None)
import eval_utils  # noqa: E402

out = []


def add(path, record, items):
    out.append({"path": path, "record": record, "items": items})


text = "Anna said: “Das Haus ist grün.” 北京是首都。\n\nThe sum of {x} is 7 ½ … 🌍\nSecond line, Ünïcode.\n"

# ---- InfiniteBench -------------------------------------------------------------------------------

infinite = {
    "passkey": {"input": "What is the pass key?", "answer": ["71432"]},
    "number_string": {"input": "What is the sequence of digits?", "answer": ["4411997722"]},
    "kv_retrieval": {"input": "\nKey: \"é\"\nThe value associated with the specified key is: ", "answer": "ab-12"},
    "longbook_sum_eng": {"input": "", "answer": ["A summary.", "Eine Zusammenfassung"]},
    "longbook_choice_eng": {"input": "Who is it?", "answer": ["Bob ☕"], "options": ["Ann", "Bob ☕", "Cid", "Dan"]},
    "longbook_qa_eng": {"input": "Who?", "answer": ["Café", "the café", "Caffè"]},
    "longbook_qa_chn": {"input": "首都在哪里？", "answer": ["北京", "北京市"]},
    "longdialogue_qa_eng": {"input": "Which character?", "answer": ["ANNA"]},
    "math_find": {"input": "You should answer with only one number. The 2nd largest number of the above list is:", "answer": 42},
    "math_calc": {"input": "", "answer": [[3, 5, 12]]},
    "code_run": {"input": "Please give me the exact number of the return value of func_12(-3). Be concise.", "answer": [-6]},
    "code_debug": {"input": "", "answer": ["get_b", "B"], "options": ["get_a", "get_b", "get_c", "get_d"]},
}
for task, fields in infinite.items():
    record = {"id": 0, "context": text, "options": [], **fields}
    answers = eval_utils.get_answer(record, task)
    answers = answers if isinstance(answers, list) else [answers]
    answers = answers[0] if isinstance(answers[0], list) else answers
    add(f"{task}.jsonl", record, [{
        "prompt": eval_utils.create_prompt(dict(record), task, "yarn-mistral", "."),
        "answers": [str(a) for a in answers],
        "n_predict": eval_utils.DATA_NAME_TO_MAX_NEW_TOKENS[task]}])

# ---- LongBench -----------------------------------------------------------------------------------

prompts = json.loads(read("longbench/dataset2prompt.json"))
lengths = json.loads(read("longbench/dataset2maxlen.json"))
raw = ["trec", "triviaqa", "samsum", "lsht", "lcc", "repobench-p"]
special = {"trec": ["Location", "Person"], "lsht": ["体育", "经济"]}
for i, task in enumerate(prompts):
    edition = "_e" if i % 3 == 0 and "zh" not in task else ""
    answers = {"passage_retrieval_en": ["Paragraph 7"], "passage_retrieval_zh": ["段落7"]}.get(task, ["Oslo", "奥斯陆"])
    record = {"input": "Where? 哪里？", "context": text, "answers": answers, "length": [1234, 4567, 9999][i % 3],
              "dataset": task + edition, "language": "en", "all_classes": special.get(task), "_id": f"é{i}"}
    add(f"{task}{edition}.jsonl", record, [{
        "prompt": prompts[task].format(**record), "answers": answers, "n_predict": lengths[task],
        "raw": task in raw, "first_line": task in raw[:4], "classes": special.get(task, []),
        "group": ["0-4k", "4-8k", "8k+"][i % 3], "id": f"é{i}"}])
record = {"_id": "v2", "domain": "d", "sub_domain": "s", "difficulty": "hard", "length": "short", "question": " Why? ",
          "choice_A": "a", "choice_B": "ß", "choice_C": "c ", "choice_D": "d", "answer": "B", "context": text}
prompt = read("longbench/0shot.txt")
for mark, field in (("$DOC$", "context"), ("$Q$", "question"), ("$C_A$", "choice_A"), ("$C_B$", "choice_B"),
                    ("$C_C$", "choice_C"), ("$C_D$", "choice_D")):
    prompt = prompt.replace(mark, record[field].strip())
add("data.jsonl", record, [{"prompt": prompt, "answers": ["B"], "n_predict": 128, "group": "hard"}])

# ---- L-Eval --------------------------------------------------------------------------------------

system = part("leval/LEval_config.py", "def get_sys_prompt", "    return prompt\n", os=os)
text_of = read("leval/LEval_config.py")
exec(text_of[text_of.index("def get_sys_prompt"):], system.__dict__)


def leval(task, instructions, outputs, evaluation):
    record = {"instructions": instructions, "outputs": outputs, "input": text, "source": "x", "evaluation": evaluation}
    args = types.SimpleNamespace(metric="exam_eval" if evaluation == "exam" else "ngram_eval")
    items = []
    for inst, answer in zip(instructions, outputs):
        item = {"system": system.get_sys_prompt(args, task), "answers": [answer], "n_predict": 512, "prefix": ""}
        if "gsm" in task or "codeU" in task or "topic" in task:
            item["prompt"] = text + "\n\n" + inst
        elif evaluation == "exam":
            item["prompt"] = (f"Document is as follows. {text} \nQuestion: {inst}.  Please directly give the answer "
                              "without any additional output or explanation ")
            item["prefix"] = "\nAnswer:"
        else:
            item["prompt"] = (f"Document is as follows. {text} Instruction: {inst} "
                              f"\nAnswer this question with {len(answer.split())} words.")
        items.append(item)
        if "sci_fi" in task:
            fact = inst.replace("based on the world described in the document.",
                                "based on the real-world knowledge and facts up until your last training")
            items.append({"prompt": fact + "Please directly answer without any additional output or explanation. \nAnswer:",
                          "answers": [answer], "prefix": "", "n_predict": 512, "group": "fact"})
            item["group"] = "loyalty"
    add(f"{task}.jsonl", record, items)


leval("coursera", ["Question 1. What?\nA. a\nB. é", "Question 2?"], ["AB", "B"], "exam")
leval("quality", ["Why?\n\n (A) They were ..\n (B) Ünï"], ["(B) Ünï"], "exam")
leval("tpo", ["why did frantzen go\nA. to study"], ["A"], "exam")
leval("gsm100", ["Question: Janet’s ducks lay 16 eggs"], ["18"], "exam")
leval("codeU", ["What is the final output?"], ["[1, 2]"], "exam")
leval("topic_retrieval_longchat", ["What is the first topic?", "And the second?"], ["The role of art", "空间"], "exam")
leval("sci_fi", ["1.\tIs it so? True or False based on the world described in the document."], ["True [fact: False]"], "exam")
leval("natural_question", ["when did season 2 start"], ["April 25 , 2018"], "f1")
leval("meeting_summ", ["What was agreed?", "Was wurde gesagt?"], ["To save time", "Nichts als  Lärm"], "rouge")

# ---- RULER ---------------------------------------------------------------------------------------

for path, prefix, outputs, n in (
        ("niah_multivalue/validation.jsonl", " The special magic numbers for é are", ["1234567", "7654321"], 128),
        ("vt/validation.jsonl", " Answer: they are: ", ["VAR", "ABC"], 30),
        ("cwe/validation.jsonl", " Answer:", ["uno", "dos"], 120), ("fwe.jsonl", " Answer:", ["xéy"], 50),
        ("qa_1/validation.jsonl", " Answer:", ["Oslo", "the city of Oslo"], 32)):
    record = {"index": 3, "input": text + "What is it?", "outputs": outputs, "length": 99,
              "length_w_model_temp": 120, "answer_prefix": prefix, "token_position_answer": 12}
    add(path, record, [{"prompt": record["input"], "prefix": prefix, "answers": outputs, "n_predict": n, "id": "3"}])

# ---- LongMemEval ---------------------------------------------------------------------------------

program = part("longmemeval/run_generation.py", "def prepare_prompt", "@backoff", json=json)


class Words:
    """A tokenizer that never has to cut."""
    def __call__(self, *_, **__):
        return {"input_ids": [[]]}


def memory(question_id, answer):
    record = {"question_id": question_id, "question_type": "knowledge-update", "question": "Where do I live now? 😀",
              "answer": answer, "question_date": "2023/05/30 (Tue) 23:40", "haystack_session_ids": ["s1", "s2", "s3"],
              "haystack_dates": ["2023/05/22 (Mon) 10:00", "2023/05/20 (Sat) 02:21", "2023/05/23 (Tue) 08:00"],
              "haystack_sessions": [
                  [{"role": "user", "content": "I moved to \"Gent\" \\ Ghent.\n\t😀", "has_answer": True},
                   {"role": "assistant", "content": "Schön!"}],
                  [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello, \u0007."}],
                  [{"role": "assistant", "content": "Good morning"}, {"role": "user", "content": "你好"}]],
              "answer_session_ids": ["s1"]}
    prompt = program.prepare_prompt(json.loads(json.dumps(record)), "orig-session", 1000, False, "json", False, Words(),
                                    "huggingface", 10 ** 9, None)
    return record, {"prompt": prompt, "answers": [str(answer)], "n_predict": 500, "id": question_id,
                    "group": "knowledge-update"}


record, item = memory("q1", "Ghent")
add("longmemeval_s.json", record, [{**item, "turns": [
    "[2023/05/20 (Sat) 02:21] Hi", "Hello, \u0007.", "[2023/05/22 (Mon) 10:00] I moved to \"Gent\" \\ Ghent.\n\t😀", "Schön!",
    "[2023/05/23 (Tue) 08:00] ", "Good morning", "你好", ""]}])
record, item = memory("q2_abs", 3)
add("longmemeval_oracle.json", record, [{**item, "metric": "abstention"}])

# ---- LoCoMo --------------------------------------------------------------------------------------

program = part("locomo/evaluate_gpts.py", "QA_PROMPT = ", "def process_ouput", )
context = part("locomo/evaluate_gpts.py", "def get_input_context", "def get_gpt_answers", MAX_LENGTH={"m": 10 ** 9},
               PER_QA_TOKEN_BUDGET=50, print=lambda *_: None)
talk = {"speaker_a": "Ann", "speaker_b": "Björn", "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "Hi! 👋"},
                      {"speaker": "Björn", "dia_id": "D1:2", "text": "Look", "img_url": ["u"], "blip_caption": "a photo of a dog"}],
        "session_2_date_time": "9 am on 9 May, 2023",
        "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "I ran."}], "session_3_date_time": "x"}
qa = [{"question": "When did Ann run?", "answer": "9 May 2023", "evidence": [], "category": 2},
      {"question": "Who?", "answer": "Ann, Björn", "evidence": [], "category": 1},
      {"question": "Why?", "answer": "for fun; she said so", "evidence": [], "category": 3},
      {"question": "How many?", "answer": 6, "evidence": [], "category": 4},
      {"question": "Which cat?", "adversarial_answer": "Tom", "evidence": [], "category": 5},
      {"question": "Which dog?", "adversarial_answer": "Rex", "evidence": [], "category": 5}]
old = json.loads(json.dumps(talk))
for k, session in old.items():
    for turn in session if isinstance(session, list) else []:
        turn["clean_text"] = turn["text"]
        if "img_url" in turn:
            turn["img_file"] = turn["img_url"]
words = types.SimpleNamespace(encode=lambda t: t.split())
start = ("Below is a conversation between two people: Ann and Björn. The conversation takes place over multiple days "
         "and the date of each conversation is wriiten at the beginning of the conversation.\n\n")
body = start + context.get_input_context(old, 0, words, types.SimpleNamespace(model="m", batch_size=1))
items = []
for i, q in enumerate(qa):
    question, answers, classes = q["question"], [str(q.get("answer", q.get("adversarial_answer")))], []
    if q["category"] == 2:
        question += " Use DATE of CONVERSATION to answer with an approximate date."
    if q["category"] == 5:
        classes = ["Not mentioned in the conversation", q["adversarial_answer"]]
        classes = classes if i % 2 else classes[::-1]
        question += " Select the correct answer: (a) {} (b) {}. ".format(*classes)
    if q["category"] == 3:
        answers = ["for fun"]
    template = program.QA_PROMPT_CAT_5 if q["category"] == 5 else program.QA_PROMPT
    items.append({"prompt": body + "\n\n" + template.format(question), "answers": answers, "classes": classes,
                  "n_predict": 32, "group": f"category-{q['category']}",
                  "metric": ["f1-stem-lists", "f1-stems", "f1-stems", "f1-stems", "abstention"][q["category"] - 1]})
add("locomo10.json", {"sample_id": "conv-1", "conversation": talk, "qa": qa}, items)
add("26.json", {**talk, "qa": qa[:2]}, items[:2])

# ---- a needle, plain -----------------------------------------------------------------------------

tail = "Don't give information outside the document or repeat your findings"
niah = {"context": text, "retrieval_question": "What is the best thing to do in Zürich?", "needle": "Eat a Brötli.",
        "depth_percent": 50, "context_length": 1000}
about = "You are a helpful AI bot that answers questions for a user. Keep your response short and direct"
add("needles.jsonl", niah, [{"prompt": f"{text}\n\n{niah['retrieval_question']} {tail}", "answers": ["Eat a Brötli."],
                             "system": about, "n_predict": 300, "metric": "rouge-1", "group": "depth-50"}])
add("needles2.jsonl", {**niah, "answer": "Brötli"}, [
    {"prompt": f"{text}\n\n{niah['retrieval_question']} {tail}", "answers": ["Brötli"], "system": about,
     "n_predict": 300, "metric": "contains"}])
add("own.jsonl", {"context": text, "question": "Who? 谁？", "answers": ["Anna", "安娜"], "id": "x"},
    [{"prompt": f"{text}\n\nWho? 谁？", "answers": ["Anna", "安娜"], "n_predict": 64, "metric": "contains", "id": "x"}])
add("own2.jsonl", {"context": text, "question": "Who?", "answers": ["Bob"], "options": ["Ann", "Bob"], "max_tokens": 5},
    [{"prompt": f"{text}\n\nWho?\nA. Ann\nB. Bob", "answers": ["Bob", "B"], "n_predict": 5, "metric": "choice"}])
add("own3.jsonl", {"context": text, "question": "Who?", "answers": "Bob", "metric": "f1"},
    [{"prompt": f"{text}\n\nWho?", "answers": ["Bob"], "n_predict": 64, "metric": "f1"}])

with open(os.path.join(here, "benchmarks.json"), "w", encoding="utf-8") as f:
    f.write("[\n" + ",\n".join(json.dumps(o, ensure_ascii=False) for o in out) + "\n]\n")
print(len(out), "records")
