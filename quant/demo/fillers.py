"""Talk that tells nothing about the user: documents, stories, facts of the world, sums, small talk.

Each function adds one exchange to a conversation and may return its topic, as the assistant would
name it ("cats", "the capital of France")."""
from phrases import BEYOND, TALK, WORLD, expand
from templates import (ANIMAL_CHAT, CHATTER, GRASS, HAVE_READ, READ_THIS, STORY, STORY_ASK)
from words import (ADJECTIVES, ANIMALS, CAPITALS, CLASS_PLURAL, COUNTRIES, DAYS, DRINKS, FOODS,
                   FRUITS, MONTHS, NAMES, NOUNS, NUMBERS, OPPOSITES, PEOPLE, SPORTS, THING_COLOURS,
                   VERBS, VERBS_OBJECT, WEATHER, WHEN, WHERE, COLOURS, a_or_an, cap, digits, pseudo)

ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
TENS = {n * 10: word for n, word in enumerate(
    '- - twenty thirty forty fifty sixty seventy eighty ninety'.split()) if n > 1}
TENS[100] = 'one hundred'


# -------------------------------------------------------------------------------------- documents
def sentence(r):
    who = (f'the {r.choice(ADJECTIVES)} {r.choice(PEOPLE)}' if r.random() < .6 else
           r.choice(NAMES))
    what = 'the ' + (r.choice(ADJECTIVES) + ' ' if r.random() < .5 else '') + r.choice(NOUNS)
    x = r.random()
    text = (f'{who} {r.choice(VERBS)} {r.choice(WHERE)} {r.choice(NOUNS)}' if x < .3 else
            f'{who} {r.choice(VERBS_OBJECT)} {what}' if x < .6 else
            f'{what} was {r.choice(ADJECTIVES)} and {r.choice(ADJECTIVES)}' if x < .75 else
            f'there was a {r.choice(ADJECTIVES)} {r.choice(NOUNS)} '
            f'{r.choice(WHERE)} {r.choice(NOUNS)}' if x < .87 else
            f'it was a {r.choice(WEATHER)} day and {who} {r.choice(VERBS)}')
    return cap(text) + (' ' + r.choice(WHEN) if r.random() < .3 else '') + '.'


def document(r, n=None):
    n = n or r.randint(2, 8)
    x = r.random()
    if x < .58:
        return ' '.join(sentence(r) for _ in range(n))
    if x < .7:
        return ' '.join([GRASS] * max(1, n // 4))
    if x < .82:
        return ' '.join(f'{r.choice(DAYS)}: {r.choice(WEATHER)} and {r.choice(WEATHER)}, '
                        f'{r.randint(-5, 35)} degrees.' for _ in range(n))
    if x < .92:
        trade = 'sold', 'bought', 'ordered', 'shipped'
        return ' '.join(f'{r.choice(NAMES)} {r.choice(trade)} {r.randint(2, 90)} '
                        f'{r.choice(NOUNS)}s.' for _ in range(n))
    fruits = ', '.join(f'{r.randint(1, 9)} {r.choice(FRUITS)}' for _ in range(min(n, 5)))
    return f'Take {fruits}. Mix well and bake for {r.randint(10, 60)} minutes.'


def read_document(c, n=None):
    c.add(c.r.choice(READ_THIS) + document(c.r, n), c.r.choice(HAVE_READ))


def story(c):
    r = c.r
    if r.random() < .25:
        animal = r.choice(list(ANIMALS))
        ask = expand(r, '(Tell me|Can you tell me|Do you know|Write|I want to hear|Please tell me|'
                        'Make up) a (short |nice |funny |little |)(story|tale)(.|?| please.)')
    else:
        animal = r.choice(list(ANIMALS))
        ask = r.choice(STORY_ASK).format(a=a_or_an(animal))
    c.add(ask, ' '.join(STORY).format(
        a=animal, n=r.choice(NAMES), x=r.choice(NOUNS), y=r.choice(NOUNS),
        j1=r.choice(ADJECTIVES), j2=r.choice(ADJECTIVES), j3=r.choice(ADJECTIVES),
        took=r.choice(('took', 'carried', 'brought')),
        feel=r.choice(('happy', 'curious', 'surprised', 'proud')),
        end=r.choice(('happy', 'safe', 'together', 'famous'))))
    if r.random() < .25:
        c.add(expand(r, '(What|Which animal) was (the|your) story about?'),
              f'The story was about {a_or_an(animal)}.')
    return 'a story about ' + a_or_an(animal)


# ------------------------------------------------------------------------------- facts of the world
def world(c):
    forms, answer = c.r.choice(WORLD)
    ask = expand(c.r, forms)
    if c.r.random() < .15:
        ask = c.r.choice(('Do you know: ', 'Tell me, ', 'Say, ', 'I wonder, ')) \
            + ask[0].lower() + ask[1:]
    c.add(ask, answer)


ANIMAL_MORE = (
    ('(How many legs has|How many legs does) {a} (got|have)(?|)', '{A} has {g} legs.'),
    ('(What noise|What sound|Which sound|Which noise) does {a} make(?|)', '{A} says {s}.'),
    ('What (noise|sound) do {p} make(?|)', '{P} say {s}.'),
    ('(Where do|Where can you find) {p} (live|stay)(?|)', '{P} live {l}.'),
    ('What (food do|kind of food do) {p} (eat|like)(?|)', '{P} eat {e}.'),
    ('(What is|What\'s) {a}(?|)', '{A} is a {c}. It lives {l} and eats {e}.'),
    ('Is {a} a (mammal|bird|fish|insect|reptile)(?|)', '{A} is a {c}.'),
    ('(Tell me something|Say something|What do you know) about {p}(.|?|)',
     '{P} are {cs}. They live {l} and eat {e}.'))


def animal(c):
    r = c.r
    name = r.choice(list(ANIMALS))
    many, eats, lives, sound, kind, legs = ANIMALS[name]
    ask, reply = r.choice(ANIMAL_CHAT + ANIMAL_MORE)
    if '{s}' in reply and sound == 'nothing':
        reply = '{A} makes no sound.' if '{A}' in reply else '{P} make no sound.'
    words = {'a': a_or_an(name), 'A': cap(a_or_an(name)), 'p': many, 'P': cap(many), 'e': eats,
             'l': lives, 's': sound, 'c': kind, 'cs': CLASS_PLURAL[kind], 'g': legs}
    reply = reply.replace('a {c}', a_or_an(kind))
    c.add(expand(r, ask).format(**words), reply.format(**words))
    if r.random() < .12:
        other = r.choice(list(ANIMALS))
        if '{P} eat {e}' in reply or 'eat' in ask:
            c.add(expand(r, f'(And|What about) {ANIMALS[other][0]}?'),
                  f'{cap(ANIMALS[other][0])} eat {ANIMALS[other][1]}.')
    return many


def capital(c):
    r = c.r
    country = r.choice(list(CAPITALS))
    city = CAPITALS[country]
    if r.random() < .3:
        c.add(expand(r, f'(Which country is {city} in|In which country is {city}|Where is {city}'
                        f'|What country is {city} the capital of)(?|)'),
              f'{city} is the capital of {country}.')
        return city
    c.add(expand(r, f"(What is|What's|Do you know|Tell me|Name) the capital (|city )of {country}(?|)"
          if r.random() < .7 else f"(Capital of {country}|{country}'s capital|What is {country}'s "
                                  f"capital|Which city is the capital of {country})(?|)"),
          f'The capital of {country} is {city}.')
    while r.random() < .25:
        other = r.choice(list(CAPITALS))
        c.add(expand(r, f'(And|What about|And of|How about|And the capital of) {other}?'),
              f'The capital of {other} is {CAPITALS[other]}.')
    if r.random() < .1:
        c.add(expand(r, '(Which|What) (city|town) did you (just |)(name|say|mention)?'),
              c.turns[-1][1].split(' is ')[1])
    return f'the capital of {country}'


def opposite(c):
    a, b = c.r.sample(c.r.choice(OPPOSITES), 2)
    c.add(expand(c.r, f"(What is|What's|Tell me|Name|Do you know) the opposite of {a}(?|)"),
          f'The opposite of {a} is {b}.')


def colour_of(c):
    thing = c.r.choice(list(THING_COLOURS))
    name = thing.replace('_', ' ')
    c.add(f'What colour is {name[0].lower() + name[1:]}?', f'{name} is {THING_COLOURS[thing]}.')


# --------------------------------------------------------------------------- numbers, days, letters
def number(n):
    if n <= 20:
        return NUMBERS[n]
    tens = n // 10 * 10
    return TENS[tens] + ('-' + NUMBERS[n % 10] if n % 10 else '')


SUMS = {'+': ('plus', 'and', '+', 'added to'), '-': ('minus', '-'), '*': ('times', '*', 'x')}


def arithmetic(c):
    r = c.r
    sign = r.choices('+-*', (.5, .3, .2))[0]
    most = r.choice((10, 10, 20))
    a, b = r.randint(0, most), r.randint(0, most)
    if sign == '*':
        a, b = (r.choice((1, 2, 3, 4, 5, 10)) for _ in range(2))
    if sign == '-' and a < b:
        a, b = b, a
    result = {'+': a + b, '-': a - b, '*': a * b}[sign]
    word = r.choice(SUMS[sign])
    symbol = word in ('+', '-', '*', 'x')
    spoken = not symbol and r.random() < .6
    x, y, z = (number(n) if spoken else str(n) for n in (a, b, result))
    space = '' if symbol and r.random() < .3 else ' '
    body = f'{x}{space}{word}{space}{y}'
    ask = expand(r, "(What is|What's|How much is|What does|Compute|Do you know|Calculate|) {b}(?|)")
    ask = ask.replace('{b}', body).strip()
    said = {'+': 'plus', '-': 'minus', '*': 'times'}[sign]
    c.add(cap(ask), f'{cap(x)} {said} {y} is {z}.')
    if r.random() < .08:
        c.add(expand(r, '(What was|And|Tell me) the result( again|)?'), cap(z) + '.')


THINGS = FRUITS + 'coins books stones eggs cats bottles pens cups shells'.split()


def word_problem(c):
    r = c.r
    thing, who = r.choice(THINGS), r.choice(NAMES)
    a, b = r.randint(1, 6), r.randint(1, 5)
    plus = r.random() < .5
    if not plus and a < b:
        a, b = b, a
    spoken = r.random() < .6
    x, y, z = (number(n) if spoken else str(n) for n in (a, b, a + b if plus else a - b))
    verb = expand(r, '(buy|find|get|pick) {y} more' if plus else
                  '(eat|lose|sell|give away|drop) {y}( of them|)').format(y=y)
    if r.random() < .6:
        c.add(f'I have {x} {thing} and {verb}. '
              + expand(r, f'How many (do I have|{thing} do I have|are left|have I got)( now|)?'),
              f'You have {z} {thing}.')
    else:
        c.add(f'If {who} has {x} {thing} and '
              + (f'gets {y} more' if plus else f'loses {y}') + expand(r, ', how many (are there|'
                                                                     f'does {who} have)?'),
              f'{who} has {z} {thing}.')


def count(c):
    r = c.r
    spoken = r.random() < .7
    form = r.choices(('to', 'from', 'back', 'next', 'even'), (.4, .25, .15, .15, .05))[0]
    write = number if spoken or r.random() < .3 else str
    if form == 'to':
        n = r.choice((3, 5, 10, 10, 10, 12, 15, 20, r.randint(3, 20)))
        ask, out = f'(to|up to|from one to) {write(n)}', range(1, n + 1)
    elif form == 'from':
        a = r.randint(1, 12)
        n = r.randint(a + 2, min(a + 9, 20))
        ask, out = f'from {write(a)} (to|up to|until) {write(n)}', range(a, n + 1)
    elif form == 'back':
        n = r.choice((3, 5, 10, r.randint(3, 12)))
        ask = f'(backwards|back|down) from {write(n)}( to one|)'
        out = range(n, 0, -1)
    elif form == 'even':
        ask, out = '(in twos|by twos) to ten', range(2, 11, 2)
    else:
        n = r.randint(0, 19)
        step = r.choice((1, -1)) if n else 1
        return c.add(expand(r, f'(What|Which number) comes {"after" if step > 0 else "before"} '
                               f'{write(n)}(?|)'), f'{cap(write(n + step))}.')
    ask = expand(r, f'(Count|Please count|Can you count|Count for me|Could you count|Now count) {ask}'
                    '(.|?|)')
    digits_only = write is str
    c.add(ask, cap(', '.join(str(i) if digits_only else number(i) for i in out)) + '.')


ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh
twelfth""".split()


def calendar(c):
    r = c.r
    names, what, every = r.choice(((DAYS, 'day', 'week'), (MONTHS, 'month', 'year')))
    i, n = r.randrange(len(names)), len(names)
    step, words = r.choice(((1, ('comes after', 'follows', 'is after')),
                            (-1, ('comes before', 'is before'))))
    other = names[(i + step) % n]
    word = r.choice(words)
    form = r.randrange(5)
    if form == 0:
        ask = f'(What|Which) {what} {word} {names[i]}(?|)'
    elif form == 1:
        ask = f"(What is|What's|Name|Tell me) the {what} {'after' if step > 0 else 'before'} " \
              f'{names[i]}(?|)'
    elif form == 2 and what == 'day':
        ask = f'(If today is|Today is|If it is) {names[i]}(,|. Then) what (is|day is|was|day was) ' \
              f"{'tomorrow' if step > 0 else 'yesterday'}?"
        return c.add(expand(r, ask), f'It is {other}.')
    elif form == 3:
        ask = f"(What is|What's|Which is|Name) the {ORDINALS[i]} {what} of the {every}(?|)"
        return c.add(expand(r, ask), f'{names[i]} is the {ORDINALS[i]} {what}.')
    elif form == 4:
        ask = f'(Name|List|What are|Tell me|Say|Do you know) (the|all|all the) ({what}s of the ' \
              f'{every}|{what}s|{n} {what}s)(.|?|)'
        return c.add(expand(r, ask), ', '.join(names[:-1]) + f' and {names[-1]}.')
    else:
        ask = f'(What|Which) {what} {word} {names[i]}(?|)'
    c.add(expand(r, ask), f'{other} comes {"after" if step > 0 else "before"} {names[i]}.')


SHORT = [w for w in NOUNS + FRUITS + ADJECTIVES + COLOURS + PEOPLE + list(ANIMALS) if len(w) < 9]


def spelling(c):
    r = c.r
    word = r.choice(SHORT) if r.random() < .8 else pseudo(r)
    x = r.random()
    if x < .5:
        c.add(expand(r, f'(How do you spell|Spell|Can you spell|Please spell|How is|How do I spell) '
                        f'(the word |){word}( for me|)(?|)'), f'{cap(word)}: {"-".join(word)}.')
    elif x < .65:
        c.add(expand(r, f'(What|Which) letter does (the word |){word} (start|begin) with(?|)'),
              f'{cap(word)} starts with {word[0].upper()}.')
    elif x < .75:
        c.add(expand(r, f'(What|Which) letter does (the word |){word} end with(?|)'),
              f'{cap(word)} ends with {word[-1].upper()}.')
    elif x < .85 and len(word) < 10:
        c.add(expand(r, f'How many letters (does|has) (the word |){word} (have|got)(?|)'),
              f'{"-".join(word)}: {NUMBERS[len(word)]} letters.')
    else:
        i = r.randrange(25)
        if r.random() < .6:
            c.add(expand(r, f'(What|Which letter) comes (right |)after (the letter |){ALPHABET[i]}'
                            '( in the alphabet|)(?|)'), f'{ALPHABET[i + 1]} comes after {ALPHABET[i]}.')
        else:
            c.add(expand(r, f'(What|Which letter) comes (right |)before (the letter |)'
                            f'{ALPHABET[i + 1]}(?|)'),
                  f'{ALPHABET[i]} comes before {ALPHABET[i + 1]}.')


KINDS = {'animals': list(ANIMALS), 'colours': COLOURS, 'fruits': FRUITS, 'cities': None,
         'sports': SPORTS, 'drinks': DRINKS, 'countries': None, 'names': NAMES, 'foods': FOODS}


def name_some(c):
    r = c.r
    kind = r.choice(list(KINDS))
    members = KINDS[kind] or list(CAPITALS.values() if kind == 'cities' else CAPITALS)
    n = r.randint(2, 4)
    some = r.sample(members[:12], n)
    c.add(expand(r, f'(Name|Tell me|Give me|List|Can you name|Do you know) {NUMBERS[n]} {kind}(.|?|)'),
          cap(', '.join(some[:-1]) + f' and {some[-1]}.'))


# -------------------------------------------------------------------------------------- small talk
def small_talk(c):
    r = c.r
    says, replies = r.choice(TALK)
    words = {'w': r.choice(WEATHER), 'f': r.choice(FOODS), 'd': r.choice(DRINKS),
             't': r.choice(SPORTS), 'x': r.choice(NOUNS)}
    c.add(expand(r, r.choice(says)).format(**words), r.choice(replies).format(**words))


def beyond(c):
    """A question beyond this model."""
    r = c.r
    says, replies = r.choice(BEYOND)
    invented = pseudo(r)
    words = {'x': r.choice(NOUNS) if r.random() < .7 else pseudo(r), 'j': r.choice(ADJECTIVES),
             'p': r.choice(PEOPLE), 'z': invented, 'Z': invented.capitalize(),
             'N': digits(r, 2, 3, 4, 5), 'c': r.choice(list(CAPITALS) + COUNTRIES),
             'm': r.choice(NAMES), 'a': r.choice(list(ANIMALS)), 'f': r.choice(FOODS)}
    text = expand(r, r.choice(says)).format(**words)
    if r.random() < .1:
        text = r.choice(('Please, ', 'Hey, ', 'Can you help me? ', 'Okay. ')) + text
    c.add(text, r.choice(replies))


def chatter(c):
    c.add(sentence(c.r), c.r.choice(CHATTER))


FILLERS = ((read_document, .12), (story, .04), (animal, .1), (arithmetic, .08), (word_problem, .02),
           (count, .04), (capital, .05), (opposite, .025), (calendar, .04), (colour_of, .01),
           (spelling, .05), (name_some, .007), (world, .14), (small_talk, .2), (beyond, .14),
           (chatter, .02))


def filler(c, long=False):
    if long:
        return read_document(c, c.r.randint(4, 16))
    makers, weights = zip(*FILLERS if c.reads or c.r.random() < .2 else FILLERS[1:])
    return c.r.choices(makers, weights)[0](c)
