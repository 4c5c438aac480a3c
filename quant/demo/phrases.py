"""Sentences about facts, made from the tables: ways to tell, ask, check, change and forget a fact.

A fact's key is (owner, noun): owner "my", "my sister's", "Anna's"; noun a row of tables/facts.txt,
any other noun phrase ("rusty lamp code"), "place:" and an object, or "list:" and a list's name."""
import os
import re
from dataclasses import dataclass, field

from words import PLURAL_OBJECTS, RELATIVES, cap

TABLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tables')
CHOICE, PERSON = re.compile(r'\(([^()]*)\)'), re.compile(r'\[([^\[\]|]*)\|([^\[\]]*)\]')
SPLIT_HEADS = 'code number password plate spot size time date name word'.split()


def one_of(r, text):
    """One of the choices a|b|c."""
    return expand(r, f'({text})')


def expand(r, text):
    """(a|b) becomes one of its choices, from the inside out."""
    while '(' in text:
        text = CHOICE.sub(lambda found: r.choice(found[1].split('|')), text)
    return ' '.join(text.split()).replace(' ?', '?').replace(' .', '.')


def lines(name):
    with open(os.path.join(TABLES, name)) as f:
        return [line.rstrip('\n') for line in f if not line.startswith('#')]


@dataclass
class Row:
    """A fact's own sentences; natural: "my <noun> is" is a sentence too."""
    natural: bool
    tell: list = field(default_factory=list)
    ask: list = field(default_factory=list)
    whether: list = field(default_factory=list)
    who: list = field(default_factory=list)
    over: list = field(default_factory=list)
    say: str = '{Y} {n} is'


def read_facts():
    rows, row = {}, None
    for line in lines('facts.txt'):
        mark, text = line[:1], line[2:]
        if mark and mark in '+?!@-':
            {'+': row.tell, '?': row.ask, '!': row.whether, '@': row.who,
             '-': row.over}[mark].append(text)
        elif mark == '=':
            row.say = text
        elif line:
            row = rows[line.lstrip('*')] = Row(natural=not line.startswith('*'))
    return rows


def read_sections(name):
    sections = {}
    for block in '\n'.join(lines(name)).strip().split('\n\n'):
        title, *rest = block.split('\n')
        sections[title] = rest
    return sections


def read_talk(name):
    """-> [(messages, answers)]"""
    out = []
    for block in '\n'.join(lines(name)).strip().split('\n\n'):
        rows = block.split('\n')
        out.append(([x for x in rows if not x.startswith('>')],
                    [x[2:] for x in rows if x.startswith('>')]))
    return out


FACTS, GENERIC = read_facts(), read_sections('generic.txt')
TALK, BEYOND = read_talk('talk.txt'), read_talk('beyond.txt')
WORLD = [line.split(' => ') for line in lines('world.txt') if line]
PRONOUNS = {'she': ('her', 'her'), 'he': ('his', 'him')}
PRIVATE = [name for name, row in FACTS.items() if not row.natural]


# --------------------------------------------------------------------------------------- fill-ins
def owner_words(owner):
    """Fill-ins for an owner such as "my", "my sister's" or "Anna's"."""
    if owner in PRONOUNS:      # yours: as the assistant says it
        yours, me = PRONOUNS[owner]
        mine, who, you = yours, owner, cap(owner)
    else:
        mine, yours = owner, 'your' + owner[2:] if owner.startswith('my') else owner
        who, you = ('I', 'You') if owner == 'my' else (owner[:-2], cap(yours[:-2]))
        me = 'me' if owner == 'my' else who
    return {'me': me, 's': mine, 'S': cap(mine), 'y': yours, 'Y': cap(yours), 'w': who,
            'W': cap(who), 'YW': you}


def noun_words(noun):
    if noun.startswith('place:'):
        thing = noun[6:]
        many = thing in PLURAL_OBJECTS
        return {'o': thing, 'be': 'are' if many else 'is', 'them': 'they' if many else 'it',
                'Them': 'They' if many else 'It', 'it': 'them' if many else 'it',
                'lie': 'lie' if many else 'lies'}
    if noun.startswith('list:'):
        return {'n': noun[5:]}
    first, _, last = noun.rpartition(' ')
    return {'n': noun, 'p': noun[:-7] if noun.endswith("'s name") else '', 'h': last, 'o': first}


def family(noun):
    """The row of facts.txt that a noun uses."""
    same = {'favorite color': 'favourite colour', 'favorite food': 'favourite food'}
    return 'pet' if noun.endswith("'s name") else same.get(noun, noun)


def row_of(noun):
    return FACTS.get(family(noun))


def natural(noun):
    row = row_of(noun)
    return ':' not in noun and (row is None or row.natural)


def splits(noun):
    """May "locker code" be called "the code of the locker"?"""
    return ' ' in noun and noun.split()[-1] in SPLIT_HEADS and "'s" not in noun \
        and noun.split()[0] not in ('last', 'middle', 'lucky')


def fill(r, text, key, **values):
    owner, noun = key
    first = owner == 'my'
    text = PERSON.sub(lambda m: m[1] if first else m[2], expand(r, text))
    text = text.format(**owner_words(owner), **noun_words(noun), **values)
    return cap(article(text))


def article(text):
    return re.sub(r'\b([Aa]) ([aeiou])', r'\1n \2', text)


# -------------------------------------------------------------------------------------- sentences
def pick(r, key, own, *sections):
    """A template of the noun's own row, or of the generic sections that fit it."""
    noun = key[1]
    generic = [t for s in sections for t in GENERIC[s]] if natural(noun) else []
    if splits(noun):
        generic += [t for s in sections for t in GENERIC.get(s + '_split', ())] * 2
    if not generic or own and r.random() < .55:
        return r.choice(own) if own else None
    return r.choice(generic)


def tell(r, key, value):
    row = row_of(key[1])
    if key[1].startswith('place:'):
        template = r.choice(GENERIC['tell_place'])
        return fill(r, template, key, v=value, V=cap(value))
    return fill(r, pick(r, key, row and row.tell, 'tell'), key, v=value)


def say(key):
    """The words of an answer up to the value."""
    noun = key[1]
    if noun.startswith('place:'):
        return fill(None, 'Your {o} {be}', key)
    if noun.startswith('list:'):
        return fill(None, '{Y} {n} is:', key)
    row = row_of(noun)
    return fill(None, row.say if row else '{Y} {n} is', key)


def ask(r, key):
    if key[1].startswith('place:'):
        return fill(r, r.choice(GENERIC['ask_place']), key)
    row = row_of(key[1])
    return fill(r, pick(r, key, row and row.ask, 'ask'), key)


def whether(r, key, value):
    """A question that is answered by yes or no; None where there is none."""
    row = row_of(key[1])
    template = pick(r, key, row and row.whether, 'whether')
    return template and fill(r, template, key, v=value)


def who(r, key, value):
    """A question for the owner; None where there is none."""
    row = row_of(key[1])
    template = pick(r, key, row and row.who, 'who')
    return template and fill(r, template, key, v=value)


def over(r, key, value):
    """Says that a fact is no longer true; None where the noun has no such sentence."""
    row = row_of(key[1])
    return row and row.over and fill(r, r.choice(row.over), key, v=value)


def change(r, key, value, old, short):
    """short: the noun's last word is enough, because no other fact has it."""
    if key[1].startswith('place:'):
        return fill(r, r.choice(GENERIC['update_place']), key, v=value)
    if not natural(key[1]):
        template = r.choice(('Actually, {x}', 'Now {x}', 'By now {x}', 'No longer: now {x}',
                             'These days {x}', 'Since Monday {x}', 'Things changed: {x}'))
        return template.format(x=uncap(tell(r, key, value)))
    use_short = short and r.random() < .4
    template = r.choice(GENERIC['update_short' if use_short else 'update'])
    return fill(r, template, key, v=value, u=old)


LOWER = set("""My People Call The Everyone Everybody For As You Here It It's Write Note Save Keep
Remember Store Please Home If We Our To There This They By Don't Memorize Use Enter Type Ring Phone
Nobody""".split())


def uncap(sentence):
    """For the middle of a sentence: names, values and "I" keep their capital letter."""
    first = sentence.split(' ')[0]
    return sentence[0].lower() + sentence[1:] if first in LOWER else sentence


def common_words():
    """Words of the sentences themselves, not of values: these may be mistyped."""
    text = ' '.join(lines('facts.txt') + lines('generic.txt') + lines('talk.txt'))
    words = set(re.findall(r'(?<![{\w])[a-z]{4,}(?![}\w])', text))
    return words - set(RELATIVES)


COMMON_WORDS = common_words()
