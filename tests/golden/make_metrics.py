#!/usr/bin/env python3
"""Writes metrics.json: 250 predictions with answers, and what the benchmarks' own programs score them with.
tests/unit/test_questions.c compares quant/files/metric.h with it.

    make_metrics.py FOLDER

FOLDER holds copies of the programs: longbench/metrics.py (THUDM/LongBench) and ruler/constants.py (NVIDIA/RULER).
Packages: rouge 1.0.1, fuzzywuzzy with python-Levenshtein.
"""
import json
import os
import random
import re
import sys
import types

folder = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))
sys.modules["jieba"] = types.ModuleType("jieba")


def load(path):
    module = types.ModuleType(path)
    exec(compile(open(os.path.join(folder, path), encoding="utf-8").read(), path, "exec"), module.__dict__)
    return module


longbench = load("longbench/metrics.py")
ruler = load("ruler/constants.py")


def best(score):
    return lambda p: max(float(score(p["prediction"], a)) for a in p["answers"])


def contains_words(p, a):
    said, right = (longbench.normalize_answer(x).split() for x in (p, a))
    return any(said[i:i + len(right)] == right for i in range(len(said) - len(right) + 1))


def exact(p, a):
    return longbench.normalize_answer(p) == longbench.normalize_answer(a)


metrics = {
    "contains": lambda p: ruler.string_match_part([p["prediction"]], [p["answers"]]) / 100,
    "contains-all": lambda p: sum(1.0 if r.lower() in p["prediction"].lower() else 0.0 for r in p["answers"]) / len(p["answers"]),
    "contains-words": best(contains_words),
    "exact": best(exact),
    "f1": best(longbench.qa_f1_score),
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


KINDS = "text text text number choice class paragraph letter series truth".split()
pairs = []
for i in range(250):
    p = pair(KINDS[i % len(KINDS)], i)
    scores = [round(score(p), 7) for score in metrics.values()]
    pairs.append([p["prediction"], p["answers"], [int(s) if s == int(s) else s for s in scores]])
with open(os.path.join(here, "metrics.json"), "w", encoding="utf-8") as f:
    f.write(json.dumps({"metrics": ", ".join(metrics)})[:-1] + ', "pairs": [\n')
    f.write(",\n".join(json.dumps(p, ensure_ascii=False, separators=(",", ":")) for p in pairs) + "]}\n")
