#!/usr/bin/env python3
"""Writes metrics.json: for each metric 500 predictions with answers, and what the benchmarks' own programs
score them with. tests/unit/test_metrics.c compares quant/files/metric.h with it.

    make_metrics.py FOLDER

FOLDER holds copies of the programs: longbench/metrics.py and longbench/pred_v2.py (THUDM/LongBench),
infinitebench/compute_scores.py (OpenBMB/InfiniteBench), leval/auto_eval.py, em.py and f1.py
(OpenLMLab/LEval), locomo/evaluation.py (snap-research/locomo), ruler/constants.py (NVIDIA/RULER).
Packages: rouge 1.0.1, rouge-score 0.1.2, fuzzywuzzy with python-Levenshtein, nltk, regex, numpy.
"""
import importlib.util
import json
import os
import random
import re
import sys
import types

import numpy
from rouge_score import rouge_scorer

folder = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))


def stub(name, **fields):
    module = types.ModuleType(name)
    module.__dict__.update(fields)
    sys.modules[name] = module


def load(path, name, until=None):
    """Runs a program up to a line, without its packages for models and plots."""
    text = open(os.path.join(folder, path), encoding="utf-8").read()
    if until:
        text = text[:text.index(until)]
    module = types.ModuleType(name)
    module.__file__ = path
    exec(compile(text, path, "exec"), module.__dict__)
    return module


stub("jieba", cut=lambda text, cut_all: list(text))  # characters instead of words
stub("evaluate", load=lambda _: None)
stub("args", parse_args=None)
stub("bert_score", score=None)
stub("openai", OpenAI=None)
longbench = load("longbench/metrics.py", "longbench")
infinite = load("infinitebench/compute_scores.py", "infinite", "def get_score_one(")
locomo = load("locomo/evaluation.py", "locomo", "def eval_recall")
ruler = load("ruler/constants.py", "ruler")
em = load("leval/em.py", "em")
em.print = lambda *_: None
f1 = load("leval/f1.py", "f1")
text = open(os.path.join(folder, "leval/auto_eval.py"), encoding="utf-8").read()
leval = types.ModuleType("leval")
leval.re = re
leval.args = types.SimpleNamespace(pred_file="")
exec(text[text.index("def process_output_mc"):text.index("if __name__")], leval.__dict__)
text = open(os.path.join(folder, "longbench/pred_v2.py"), encoding="utf-8").read()
v2 = types.ModuleType("v2")
v2.re = re
exec(text[text.index("def extract_answer"):text.index("def get_pred")], v2.__dict__)
scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"], use_stemmer=False)


def best(score):
    return lambda p: max(float(score(p["prediction"], a)) for a in p["answers"])


def rouge(kind):
    return best(lambda p, a: scorer.score(a, p)[kind].fmeasure)


def exam(said, right, file=""):
    def score(p):
        leval.args.pred_file = file
        return best(lambda x, a: em.exact_match_score(said(x, a), right(a)))(p)
    return score


def judge(i):
    def score(p, a):
        said = leval.process_output_judge(p if "[fact:" in p.lower() else f"{p} [fact: {p}]")
        return em.exact_match_score(said[i], leval.process_gt_judge(a)[i])
    return best(score)


def geometric(p):
    top = [max(scorer.score(a, p["prediction"])[k].fmeasure for a in p["answers"])
           for k in ("rouge1", "rouge2", "rougeL")]
    return float(numpy.prod(top)) ** (1 / 3)


def contains_words(p, a):
    said, right = (longbench.normalize_answer(x).split() for x in (p, a))
    return any(said[i:i + len(right)] == right for i in range(len(said) - len(right) + 1))


def exact(p, a):
    return longbench.normalize_answer(p) == longbench.normalize_answer(a)


def infinite_one(name):
    score = getattr(infinite, "get_score_one_" + name)
    return best(lambda p, a: score(p, a, ""))


def safe(score):
    """None where the program itself fails."""
    def scored(p):
        try:
            return round(float(score(p)), 7)
        except (ValueError, IndexError, TypeError, KeyError):
            return None
    return scored


def integers(p):
    return infinite.get_score_one_code_run(p["prediction"], int(p["answers"][0]), "")


def value(p):
    a = p["answers"][0]
    return infinite.get_score_one_math_find(p["prediction"], float(a) if "." in a else int(a), "")


# The kinds of pairs that a group of metrics is compared on: ANY = as a model might answer anything.
ANY = "text text text number choice class paragraph letter series truth"
groups = {
    ANY: {
        "contains": lambda p: ruler.string_match_part([p["prediction"]], [p["answers"]]) / 100,
        "contains-all": lambda p: sum(
            1.0 if r.lower() in p["prediction"].lower() else 0.0 for r in p["answers"]) / len(p["answers"]),
        "contains-words": best(contains_words),
        "exact": best(exact),
        "f1": best(longbench.qa_f1_score),
        "f1-characters": lambda p: infinite.qa_f1_score_zh(p["prediction"], p["answers"]),
        "f1-stems": best(locomo.f1_score),
        "f1-stem-lists": best(locomo.f1),
        "abstention": lambda p: float("no information available" in p["prediction"].lower()
                                     or "not mentioned" in p["prediction"].lower()),
        "rouge-l": best(longbench.rouge_score),
        "rouge-l-characters": best(longbench.rouge_zh_score),
        "rouge-1": rouge("rouge1"),
        "rouge-lsum": rouge("rougeLsum"),
        "rouge-123l": geometric,
        "edit": best(longbench.code_sim_score),
        "count": best(longbench.count_score),
        "first-number": infinite_one("passkey"),
        "word": infinite_one("kv_retrieval"),
        "speaker": best(lambda p, a: infinite.get_score_one_longdialogue_qa_eng(p, [a], "")),
        "exam": exam(lambda x, a: x, lambda a: a),
        "exam-code": exam(leval.process_output_code, leval.process_gt_code),
    },
    "class": {
        "class": lambda p: max(longbench.classification_score(
            p["prediction"], a, all_classes=p["classes"]) for a in p["answers"]),
    },
    "paragraph": {
        "paragraph": best(lambda p, a: (
            longbench.retrieval_zh_score if "段落" in a else longbench.retrieval_score)(p, a)),
    },
    "letter": {
        "letter": best(lambda p, a: v2.extract_answer(p) == a),
    },
    "number": {
        "last-integer": integers,
        "value": value,
        "exam-math": exam(lambda x, a: leval.process_math(x), leval.process_math),
    },
    "choice": {
        "choice": lambda p: float(
            infinite.get_score_one_longbook_choice_eng(p["prediction"], p["answers"], "")),
        "function": lambda p: float(
            infinite.get_score_one_code_debug(p["prediction"], p["answers"], "")),
    },
    "series": {
        "series": lambda p: infinite.get_score_one_math_calc(
            p["prediction"], [int(a) for a in p["answers"]], ""),
    },
    "letter choice": {
        "exam-option": exam(
            lambda x, a: leval.process_output_mc(x), leval.process_gt_mc),
        "exam-options": exam(
            lambda x, a: leval.process_output_mc(x), leval.process_gt_mc, "coursera"),
    },
    "truth": {
        "exam-loyalty": judge(0),
        "exam-fact": judge(1),
    },
}

# ---- pairs ---------------------------------------------------------------------------------------

pick = random.Random(20261123)
words = """the a an and The An And running ran runners skies dying happily Dr. U.S. relational hopping agreed
hope, hoping national generalization enjoyment cats pony ponies café Café naïve ÉCOLE Straße ΣΟΦΟΣ σοφός İstanbul
1984 3.14 42 -7 0 007 x == return foo(bar) // # ` don't can't "quoted" (Paragraph) well-known mother's 北京 大学 北京，
москва МОСКВА ② x² e\u0301 ﬁ \u200b \u3000 \u00a0 yes no A B C D true false""".split(" ")
words = [w for w in re.split(r"[ \n]", " ".join(words)) if w]


def some(n):
    joints = [" ", " ", " ", " ", ", ", ". ", "\n", ".", "  ", "\u3000", "; "]
    return "".join(pick.choice(words) + pick.choice(joints) for _ in range(n)).strip(pick.choice([" ", "x"]))


def mixed(answer):
    """A prediction that has something of the answer."""
    own = re.split(r"(\s)", answer)
    kept = [w for w in own if pick.random() < 0.7]
    kind = pick.randrange(4)
    if kind == 0:
        return some(pick.randrange(6)) + " " + "".join(kept)
    if kind == 1:
        return "".join(kept) + pick.choice([".", "\n", " "]) + some(pick.randrange(12))
    if kind == 2:
        pick.shuffle(kept)
        return " ".join(kept)
    return answer


phrases = ["The answer is: ", "answer: ", "the answer is ", "The correct answer is (", "The correct answer is ",
           "**The correct answer is (", "option is ", "Option ", "It is: ", "", "", " ", "I think\n", "The answer is "]


classes = ["Location", "Location of a city", "Person", "Number", "Number of people", "体育", "体育新闻", "Date"]


def number():
    return pick.choice([str(pick.randrange(100000)), str(-pick.randrange(50)), "007", "3.50", "12.25"])


def pair(kind, i):
    p = {}
    if kind == "text":
        p["answers"] = [some(pick.randrange(1, 30)) for _ in range(pick.randrange(1, 4))]
        p["prediction"] = pick.choice([lambda: mixed(p["answers"][0]), lambda: some(pick.randrange(40)),
                                       lambda: pick.choice(["", ".", "Not mentioned.", "No information available", "\n# x\n"])])()
    elif kind == "number":
        right = number()
        p["answers"] = [right]
        p["prediction"] = pick.choice(phrases) + pick.choice([right, number(), some(3) + " " + right]) + \
            pick.choice(["", ".", "\n", " apples", "\n\nmore 5", ", or " + number()])
    elif kind in ("choice", "letter"):
        letter = pick.choice("ABCD" if kind == "choice" else ["A", "B", "C", "D", "AB", "BCD"])
        option = pick.choice(["get_name", "Alice went home", "The Abbot", "café"])
        p["answers"] = [option, letter] if kind == "choice" else [letter]
        said = pick.choice([letter, letter, pick.choice("ABCD"), option, "AB", "BD", "none"])
        p["prediction"] = pick.choice(phrases[:6] if i % 20 > 9 else phrases) + said + pick.choice(["", ".", ")", ": x", "\n", " and C.", ") Question B. "])
    elif kind == "class":
        p["classes"] = classes
        p["answers"] = [pick.choice(p["classes"])]
        p["prediction"] = " ".join(pick.sample(p["classes"], pick.randrange(4))) + pick.choice(["", " " + p["answers"][0]])
    elif kind == "paragraph":
        right = str(pick.randrange(1, 31))
        p["answers"] = [pick.choice(["Paragraph ", "段落"]) + right]
        p["prediction"] = pick.choice(["Paragraph ", "段落", "It is ", ""]) + pick.choice([right, number()]) + \
            pick.choice(["", " or 7", ", " + right, "٣"])
    elif kind == "series":
        right = [pick.randrange(200) for _ in range(pick.randrange(1, 12))]
        p["answers"] = [str(n) for n in right]
        said = [n if pick.random() < 0.9 else n + 1 for n in right][:pick.randrange(1, 14)]
        p["prediction"] = pick.choice(["", "[", "Values: "]) + ", ".join(map(str, said))
    else:
        p["answers"] = [pick.choice(["True [fact: False]", "False [fact: True]", "True [fact: True]"])]
        p["prediction"] = pick.choice(["True", "False.", "It is true that", "falsehood", "I do not know", "TRUE, false"])
    return p


def compared(kinds, metrics):
    """500 pairs that every program of the group can score."""
    kinds, pairs, i = kinds.split(), [], 0
    while len(pairs) < 500:
        p = pair(kinds[i % len(kinds)], i)
        i += 1
        scores = [safe(score)(p) for score in metrics.values()]
        if None not in scores:
            pairs.append([p["prediction"], p["answers"], [int(s) if s == int(s) else s for s in scores]])
    return pairs


with open(os.path.join(here, "metrics.json"), "w", encoding="utf-8") as f:
    f.write("[")
    for k, (kinds, metrics) in enumerate(groups.items()):
        pairs = compared(kinds, metrics)
        head = {"metrics": list(metrics), "classes": classes if kinds == "class" else []}
        f.write(",\n" if k else "")
        f.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "pairs": [\n')
        f.write(",\n".join(json.dumps(p, ensure_ascii=False, separators=(",", ":")) for p in pairs) + "]}")
        for i, n in enumerate(metrics):
            values = [p[2][i] for p in pairs]
            print(f"{n}: {len(values)} pairs, {sum(v > 0 for v in values)} above 0, {sum(0 < v < 1 for v in values)} between")
    f.write("]\n")
