#!/usr/bin/env python3
"""Writes templates.json: what jinja2 renders, for tests/unit/test_template.c.

The environment is the one transformers sets up for chat templates (utils/chat_template_utils.py); the
clock is fixed. `features` are templates written for this file, with their variables. `public` are the
templates of the test data, rendered for several conversations; only the output is kept. `stand_ins` are
templates written for this file, one for each common format; data/templates/chat_templates.json has them in
the layout of the public file, for tests where that is missing. Needs jinja2.

    tests/golden/make_templates.py [DATA]      overwrites tests/golden/templates.json and the stand-ins
"""
import datetime
import json
import sys
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2025, 7, 4, 13, 5, 9)


class Generation(jinja2.ext.Extension):
    """{% generation %}: prints its body, as in transformers."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


ENV = make_environment()


def render(source, variables):
    try:
        return {"expected": ENV.from_string(source).render(**variables)}
    except Exception:
        return {"fails": True}


VARS = {
    "tools": None, "documents": None,
    "s": "  Hello, World \n", "u": "Größe ß 漢字 é", "q": "it's \"x\" \\ \t\n\u007f\u00a0",
    "n": 7, "f": 2.5, "r": [0.1, 1e16, 123456789.125], "t": True, "no": False, "nil": None, "empty": "", "zero": 0,
    "l": [3, 1, 2], "w": ["b", "A", "c"], "d": {"b": 1, "a": [1, 2], "C": {"x": None}},
    "m": [{"role": "user", "content": "one", "k": 2}, {"role": "assistant", "content": "two", "k": 1},
          {"role": "user", "content": "three", "k": 3}],
    "nested": {"list": [{"name": "x", "n": 1.0}, {"name": "y", "n": 1e100}], "items": 5},
}

FEATURES = """\
{{ 1 + 2 * 3 - 4 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 % -1 }} {{ 7 % true }}
{{ r }} {{ r[0] + r[1] }} {{ r[1] * 2 }} {{ -r[0] }} {{ r[2] - 1 }}
{{ true }} {{ True }} {{ none }} {{ None }} {{ false }} {{ missing }} {{ [missing] }} {{ (1,) }} {{ () }} {{ {'a': 1, 2: [none, f]} }}
{{ 1 < 2 }} {{ 3 < 2 }} {{ 1 == r[0] }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 != 2 }} {{ 'a' == 1 }} {{ 2 >= 2 }} {{ 1 <= 0 }}
{{ 'x' in 'xyz' }} {{ 4 not in l }} {{ 'b' in d }} {{ 'z' in missing }} {{ not 1 }} {{ not '' and 'yes' }} {{ 0 or 'b' }} {{ 0 or '' }} {{ 1 and 2 }}
{{ 'a' if t else 'b' }}{{ 'a' if no else 'b' }}[{{ 'a' if no }}]{{ 1 if no else 2 if no else 3 }}
{{ 'a' ~ 1 ~ none ~ f ~ [1] ~ missing }} {{ 'a' + 'b' * 3 }} {{ 2 * 'ab' }} {{ [1] * 2 + [3] }} {{ 'x' * -1 }}
{{ 'a' 'b' "c" }} {{ 'tab\\tnew\\r\\nq\\'x' }} {{ "don't" }} {{ 'é' }}
{{ l[0] }} {{ l[-1] }} [{{ l[9] }}] {{ d['b'] }} {{ d.b }} {{ d['a'][1] }} {{ d.C.x }} [{{ d.zzz }}] {{ m[0]['role'] }} {{ m[-1].content }} {{ l.0 }} {{ [[1, 2]].0.1 }}
{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[5:] }} {{ l[2:1] }} {{ l[:] }} {{ l[none:2] }} {{ (1, 2, 3)[1:] }} {{ l[:9] }} {{ l[-9:] }} {{ l[::1] }}
{{ u[0:5] }}|{{ u[-2:] }}|{{ u[3] }}|{{ u[99] }}|{{ u[5:2] }}|{{ 'abc'[-1] }}|{{ u|length }}
{{ d.items()|list }} {{ d.keys()|list }} {{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 3) }} {{ nested.items is defined }} {{ d|length }}
{{ s|trim }}|{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcba'.rstrip('ab') }}|{{ 'xyx'|trim('x') }}|{{ '\u3000é\u2003'.strip() }}|
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ ' a b c '.split(none, 1) }} {{ 'abc'.split('x') }} {{ ''.split() }} {{ ''.split(',') }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }}
{{ 'abcabc'.replace('b', 'X') }} {{ 'aaa'|replace('a', 'bb') }} {{ ''.replace('a', 'x') }} {{ 'abc'.replace('d', 'x') }}
{{ u.upper() }} {{ u.lower() }} {{ 'hello wORLD-foo o\\'x'.title() }} {{ 'hello wORLD-foo o\\'x'|title }} {{ 'hELLO é'.capitalize() }} {{ u|upper }} {{ 'ABC'|lower }} {{ 'x y'|capitalize }} {{ 'Éa'.lower() }}
{{ '%s-%s'|format(1, [2]) }} {{ '%s is 3%%'|format(f) }} {{ ''|format }}
{{ l|join }} {{ l|join(', ') }} {{ 'abc'|join('-') }} {{ l|first }} {{ l|last }} [{{ []|first }}] {{ 'abc'|last }} {{ l|length }} {{ missing|length }}
{{ l|sort }} {{ w|sort }} {{ m|sort(attribute='k')|map(attribute='content')|list }} {{ w|unique|list }} {{ ['a', 'A', 'b']|unique|list }} {{ l|min }} {{ w|min }} [{{ []|min }}] {{ [none, none]|sort }}
{{ d|dictsort }} {{ d|items|list }} {{ {'B': 2, 'a': 1}|dictsort }}
{{ m|map(attribute='role')|list }} {{ w|map('upper')|list }} {{ w|map('replace', 'b', 'x')|join }} {{ m|selectattr('role', 'equalto', 'user')|list|length }} {{ m|rejectattr('role', '==', 'user')|map(attribute='content')|first }} {{ l|select('eq', 3)|list }} {{ l|reject('in', [1])|list }} {{ [0, 1, '', 'a']|select|list }} {{ m|selectattr('k')|list|length }} {{ nested.list|map(attribute='name')|join }} {{ none|selectattr('x')|list }} {{ m|map(attribute='role')|unique|join(' ') }}
{% set g = l|map('string') %}{{ g|list }}{{ g|list }} {{ 'yes' if []|select else 'no' }}
{{ 'a'|default('b') }} {{ missing|default('b') }} {{ ''|default('b') }}| {{ ''|default('b', true) }} {{ none|default('x') }} {{ none|default('x', boolean=true) }}
{{ '42'|int }} {{ ' 42 '|int }} {{ 'x'|int }} {{ '3.9'|int }} {{ '4x'|int }} {{ ''|int }} {{ f|int }} {{ true|int }} {{ none|int }}
{{ 1|string + 'x' }} {{ 'abc'|list }} {{ d|list }} {{ '<a> & "b"'|escape }} {{ '<a>'|safe }} {{ '<a>'|safe ~ '<b>' }}
{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb\\n\\nc'|indent(2, true) }}|{{ 'a\\nb'|indent(first=true) }}|{{ 'a\\n'|indent }}|{{ ''|indent }}
{{ d|tojson }} {{ q|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ '\U0001F600'|tojson(ensure_ascii=True) }} {{ [r, true, none, 'x']|tojson }} {{ {1: 2, none: 3, true: 4, f: 5}|tojson }} {{ []|tojson }} {{ {}|tojson }} {{ '</script>&\\''|tojson }} {{ (1, 2)|tojson }}
{{ d|tojson(indent=2) }} {{ d|tojson(separators=(',', ':')) }} {{ [[], {}]|tojson(indent=1) }} {{ d|tojson(indent='--') }}
{{ q }} {{ [q] }} {{ ["it's"] }} {{ ['"'] }} {{ [u] }} {{ {'k': 'v\\n'} }}
{{ x is defined }} {{ n is defined }} {{ x is undefined }} {{ nil is none }} {{ x is none }} {{ s is string }} {{ d is mapping }} {{ l is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ l is iterable }} {{ n is iterable }} {{ s is iterable }} {{ missing is iterable }} {{ t is boolean }} {{ n is boolean }} {{ t is true }} {{ 1 is true }} {{ no is false }}
{{ 3 is eq 3 }} {{ 3 is equalto(4) }} {{ 3 is ne 4 }} {{ 1 is in l }} {{ 1 is not in l }} {{ x is not defined }} {{ not x is defined }} {{ range is defined }} {{ 3 is not none and true }} {{ d.q is defined or l is defined }}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}[{{ loop.previtem }}][{{ loop.nextitem }}]{{ i }};{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k, v in d|items %}{{ k }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'é漢' %}{{ c }}.{% endfor %}
{% for i in [] %}x{% else %}none{% endfor %}{% for i in missing %}x{% else %}none{% endfor %}{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% else %}no{% endfor %}{% for i in l if i > 9 %}{% else %}no{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %} {{ range(1, 9, 3)|list }} {{ range(5, 0, -2)|list }} {{ range(3)[1:]|list }} {{ range(4)|length }} {{ range(0)|list }} {{ range(5, 9223372036854775807, 9223372036854775800)|list }} {{ range(-5, -9223372036854775807, -9223372036854775800)|list }}
{% for a in [1, 2] %}{% for b in [1, 2] %}{{ a }}{{ b }} {% endfor %}{{ loop.index }}{% endfor %}{% for a, b, c in [(1, 2, 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }} {% if true %}{% set x = 9 %}{% endif %}{{ x }} {% set c = 1, 2 %}{{ c }}
{% set ns = namespace(n=0, s='') %}{% for i in l %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }}{{ ns.s }} {{ ns['n'] }} [{{ ns.zz }}] {{ ns is mapping }} {% set d2 = dict(a=1, b=2) %}{{ d2 }} {% set e = namespace({'q': 1}) %}{{ e.q }}
{% set b %}in {{ n }} block{% endset %}[{{ b }}]{% filter upper %}abc {{ s|trim }}{% endfilter %}{% filter indent(2, true) %} x
y {% endfilter %}
{% macro f(a, b=2, c=a) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(b=4, a=5) }}{{ f(1, c=9) }}{{ f() }}{% set y = f('z')|upper %}{{ y }}
{% macro g(x) %}{% if x > 0 %}{{ x }}{{ g(x - 1) }}{% endif %}{% endmacro %}{{ g(3) }}{% set outer = 'o' %}{% macro h() %}{{ outer }}{% set outer = 'i' %}{{ outer }}{% endmacro %}{{ h() }}{{ outer }}{% for i in [1] %}{% macro k() %}{{ i }}{% endmacro %}{{ k() }}{% endfor %}
{% macro p(a) %}{{ a }}:{{ caller(2) }}{% endmacro %}{% call(x) p(1) %}[{{ x }}{{ n }}]{% endcall %}{% macro w2() %}({{ caller() }}){% endmacro %}{% call w2() %}body{% endcall %}
{% macro args(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ args(*[1, 2]) }}{{ args(1, *[2]) }}
{% generation %}gen {{ n }}{% set z = 1 %}{% endgeneration %}[{{ z }}]
{% if no %}a{% elif zero %}b{% elif n %}c{% else %}d{% endif %}{% if not no and (t or nil.x) %}ok{% endif %}{% if d.b == 1 %}{% if l %}deep{% endif %}{% endif %}
|  |{# comment {{ x }} #}|{#- c -#}  |
a  {%- if true -%}  b  {%- endif -%}  c {{- ' d ' -}}  e {{ 'f' }}
  {% if true %}
    x
  {% endif %}
y {% if true %} z
{% endif %}
  {%+ if true %}q{%+ endif %}

  {{ 'kept' }}
  {# gone #}
tail
{% if true +%}
kept line end
{%- endif %}

{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': {}} }}{{ '}}' }}{{ "%}" }}{% set v = {'x': {'y': 2}} %}{{ v.x.y }}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%B %d, %Y %A %H:%M:%S') }} [{{ strftime_now('') }}]
{{ namespace is defined }} {{ documents }} {{ [1, 'a', none]|string }} {{ l|string|length }} {{ 'x'.upper().lower() }} {{ ('a' ~ 'b').upper() }} {{ -n }} {{ - -n }} {{ (n)|string }} {{ -f }}
{{ 'a' if x is defined else 'b' }} {{ n if n is not none }} {{ 'A' ~ ('b' if t else 'c') ~ 'D' }} {{ (l|length) - 1 }} {{ l|length - 1 }} {{ 'x' + n|string }} {{ not n == 7 }} {{ n == 7 and s }} {{ l == [3, 1, 2] }} {{ d == d }} {{ (1, 2) == [1, 2] }}
{{ missing.attribute }}
{{ missing + 'x' }}
{{ 'a' + 1 }}
{{ 1 % 0 }}
{{ 'x'.split('') }}
{% for a, b in [[1]] %}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{{ none|length }}
{{ raise_exception('no') }}
{{ d.b.c.d }}
{{ undefined_function() }}
{{ 'x'|unknown }}
{{ range(1000000) }}
{{ {}|first|upper }}|{{ l|tojson|length }}
{{ 1 if }}
{% for %}
{% if true %}
{{ 'open
{% unknown %}
{{ [1, 2 }}
{{ none.x }}|{{ none['x'] }}|{{ n.x }}|{{ l.x }}|{{ s.x }}|{{ l['x'] }}|{{ d[0] }}
{{ [] is sequence }}{{ () is sequence }}{{ d.items() is iterable }}{{ (l|select) is sequence }}
{{ 'a\\\\b' }} {{ 'line\\
join' }} {{ "a\\"b" }} {{ '\\\\n' }}
{{ [1, 2, 3,] }} {{ {'a': 1,} }} {{ range(3,) | list }} {{ (1, 2,) }}
{{ 'abc' is string and 'abc' is sequence and not 'abc' is mapping }} {{ '' is defined }} {{ l is defined and l[0] == 3 }}
{{ 10 * 3 + 10 % 3 }} {{ 2 * 3 ~ 4 * 5 }} {{ (1 + 2) ~ 3 }} {{ '1' ~ '2' + '3' }} {{ 4 - 1 - 1 }}
{{ m|selectattr('role', 'in', ['user', 'tool'])|map(attribute='content')|join('|') }} {{ m|map(attribute='content')|map('length')|list }} {{ (m|last).content }} {{ m|map('tojson')|first }}
{% set reversed = m[::-1] %}{% for x in reversed %}{{ (m|length - 1) - loop.index0 }}{{ x.content }}{% endfor %}{{ m[1:][0].content }}{{ m[-1:]|length }}
{% for x in m %}{% if loop.first %}[{% endif %}{% if loop.previtem is defined and loop.previtem.role != x.role %}!{% endif %}{{ x.content }}{% if not loop.last %}, {% else %}]{% endif %}{% endfor %}
"""

# One per line, except where a line continues the template before it.
CONTINUED = {"y {% endfilter %}", "  {% if true %}", "    x", "  {% endif %}", "y {% if true %} z", "{% endif %}",
             "  {%+ if true %}q{%+ endif %}", "", "  {{ 'kept' }}", "  {# gone #}", "tail", "{% if true +%}",
             "kept line end", "{%- endif %}", "join' }} {{ \"a\\\"b\" }} {{ '\\\\n' }}"}


def features():
    templates = []
    for line in FEATURES.split("\n"):
        if line in CONTINUED and templates:
            templates[-1] += "\n" + line
        else:
            templates.append(line)
    return [{"template": t, **render(t, VARS)} for t in templates]


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def conversations():
    """Name, variables. Every model's words and the template's: system text or none, thoughts, an open end."""
    terse = [{"role": "system", "content": "You are terse."}]
    talk = [user("Hello"), assistant("Hi there\n"), user("  Who are you? <|im_end|>")]
    thought = [user("2+2?"), assistant("<think>\nEasy.\n</think>\n\n4"), user("And 3+3?")]
    cases = {
        "one turn": (talk[:1], True, {}), "one turn, system": (terse + talk[:1], True, {}),
        "two turns": (talk, True, {}), "two turns, system": (terse + talk, True, {}),
        "thoughts": (thought, True, {}), "thinking on": (thought, True, {"enable_thinking": True}),
        "thinking off": (thought, True, {"enable_thinking": False}),
        "reply to continue": (talk[:2], False, {}), "reply to continue, system": (terse + talk[:2], False, {}),
    }
    for name, (messages, generate, more) in cases.items():
        yield name, {"messages": messages, "add_generation_prompt": generate, "bos_token": "<s>",
                     "eos_token": "</s>", "tools": None, "documents": None, **more}


SYSTEM_FIRST = ("{% set system = messages[0].content if messages[0].role == 'system' else none %}"
                "{% set talk = messages[1:] if system is not none else messages %}")

STAND_INS = {
    "chatml": "{% for m in messages %}<|im_start|>{{ m.role ~ '\n' ~ m.content }}<|im_end|>{{ '\n' }}{% endfor %}"
              "{{ '<|im_start|>assistant\n' if add_generation_prompt }}",
    "phi4": "{% for m in messages %}<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>{% endfor %}"
            "{{ '<|im_start|>assistant<|im_sep|>' if add_generation_prompt }}",
    "llama3": "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ '\n\n' ~ "
              "(m.content | trim) }}<|eot_id|>{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' if "
              "add_generation_prompt }}",
    "phi3": "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ '\n' ~ m.content }}<|end|>{{ '\n' }}{% endfor %}"
            "{{ '<|assistant|>\n' if add_generation_prompt }}",
    "zephyr": "{% for m in messages %}<|{{ m.role }}|>{{ '\n' ~ m.content ~ eos_token ~ '\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{# <|user|> #}",
    "gemma": "{{ bos_token }}" + SYSTEM_FIRST + "{% for m in talk %}<start_of_turn>{{ 'user' if m.role == 'user' else "
             "'model' }}{{ '\n' ~ (system ~ '\n\n' if loop.first and system) ~ (m.content | trim) }}<end_of_turn>"
             "{{ '\n' }}{% endfor %}{{ '<start_of_turn>model\n' if add_generation_prompt }}",
    "llama2": SYSTEM_FIRST + "{% for m in talk %}{% if m.role == 'user' %}{{ '<s>' if not loop.first }}[INST] {{ "
              "'<<SYS>>\n' ~ system ~ '\n<</SYS>>\n\n' if loop.first and system }}{{ m.content.strip() }} [/INST]"
              "{% else %} {{ m.content.strip() }} </s>{% endif %}{% endfor %}",
    "mistral": SYSTEM_FIRST + "{% for m in talk %}{% if m.role == 'user' %}[INST] {{ system ~ '\n' if loop.first and "
               "system }}{{ m.content }} [/INST]{% else %}{{ m.content ~ eos_token }}{% endif %}{% endfor %}",
    "mistral-v1": SYSTEM_FIRST + "{% set system_message = system ~ '\n\n' if system else '' %}{% for m in talk %}{% if "
                  "m.role == 'user' %}{{ ' [INST] ' + system_message + m.content if loop.first else ' [INST] ' ~ "
                  "m.content }} [/INST]{% else %} {{ m.content ~ eos_token }}{% endif %}{% endfor %}",
    "mistral-v3-tekken": SYSTEM_FIRST + "{# [AVAILABLE_TOOLS] #}{% for m in talk %}{% if m.role == 'user' %}{{ \"[INST]\" ~ "
                         "(system ~ '\n\n' if loop.first and system) ~ m.content }}[/INST]{% else %}{{ m.content ~ "
                         "eos_token }}{% endif %}{% endfor %}",
    "mistral-v7": "{% for m in messages %}{% if m.role == 'system' %}[SYSTEM_PROMPT] {{ m.content }}[/SYSTEM_PROMPT]"
                  "{% elif m.role == 'user' %}[INST] {{ m.content }}[/INST]{% else %} {{ m.content ~ eos_token }}"
                  "{% endif %}{% endfor %}",
    "minicpm": "{% for m in messages %}{{ {'user': '<用户>', 'assistant': '<AI>'}.get(m.role, '') ~ (m.content | trim) }}"
               "{% endfor %}{{ '<AI>' if add_generation_prompt }}",
}

TALK = [{"role": "system", "content": "You are a helpful assistant"}, user("Hello"), assistant("Hi there"),
        user("Who are you"), assistant("   I am an assistant   "), user("Another question")]


def stand_ins():
    """In the layout of the public file."""
    variables = {"messages": TALK, "add_generation_prompt": True, "bos_token": "", "eos_token": "</s>"}
    return {"stand_ins": True, "conversation": TALK, "add_generation_prompt": True,
            "cases": [{"name": name, "template": source, "expected_jinja": render(source, variables)["expected"]}
                      for name, source in STAND_INS.items()]}


def rendered(cases):
    talks = dict(conversations())
    return {"conversations": talks,
            "rendered": [{"template": case["name"], "conversation": name, **render(case["template"], variables)}
                         for case in cases for name, variables in talks.items()]}


def main():
    here = Path(__file__).parent
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else here / "../../../shared/data"
    source = json.loads((data / "templates/chat_templates.json").read_text())
    own = stand_ins()
    out = {"variables": VARS, "features": features(), "public": rendered(source["cases"]),
           "stand_ins": rendered(own["cases"])}
    stand = here / "data/templates/chat_templates.json"
    stand.parent.mkdir(exist_ok=True)
    stand.write_text(json.dumps(own, indent=1, ensure_ascii=False) + "\n")
    (here / "templates.json").write_text(json.dumps(out, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
