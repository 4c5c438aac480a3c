"""Synthetic conversations for the demo model.

A conversation is a list of (role, text) turns, role one of 'user', 'assistant', 'system', 'query'.
Inside an assistant's text MARK...MARK encloses a recalled value, so that the trainer can weigh it.
Everything is drawn from one random.Random: the same seed gives the same conversations.

words.py has the words and values, tables/ and templates.py the sentences, phrases.py what is said
about a fact, scenes.py passages of several turns, fillers.py everything that is not about the user.
This file composes them. All text is our own; no corpus is read.
"""
import random

import fillers
import phrases
import scenes
from phrases import expand, fill, uncap
from templates import (ACK, ACK_NAME, ACK_PLACE, ACK_SHORT, ACK_UPDATE, ASK, ASK_LIST, ASK_MINE,
                       ASK_OTHER, ASK_PLACE, BEFORE_TELLING, GRASS, GREETINGS, IMPORTANT, REPEAT,
                       SECRETS, SYSTEM, TELL, TELL_LIST, TELL_MINE, TELL_OTHER, TELL_PLACE, UNKNOWN,
                       UPDATE, UPDATE_PLACE)
from words import (ADJECTIVES, COLOURS, COMMON, LISTS, MARK, NOUNS, OBJECTS, RELATIVES, VALUES,
                   VERBS, cap, digits, known, marked, place, plain, proper, pseudo, runs, sequence)

# Kinds of facts that are told together in some conversations: only the noun tells their values apart.
ALIKE = {kind: [n for n in VALUES if n.endswith(ends)] for kind, ends in (
    ('numbers', ('code', 'number', 'size', 'plate', 'spot')), ('words', ('word', 'password', 'username')),
    ('names', ('name', 'friend', 'teacher', 'boss', 'doctor', 'partner')),
    ('likes', tuple(n for n in VALUES if n.startswith('favourite'))),
    ('dates', ('birthday', ' day', ' date', ' time', ' appointment')))} | {'places': []}
OLD = .35      # the share of sentences from templates.py, of the others from tables/


def family(noun):
    """The row of the TELL_ and ASK_ tables of templates.py that a noun uses."""
    return ('pet' if noun.endswith("'s name") else
            'favourite' if noun.startswith('favourite') else noun)


class Conversation:
    """Grows turn by turn. `facts` maps (owner, noun) to the current value."""

    def __init__(self, r):
        self.r = r
        self.turns = []
        self.facts = {}
        self.dropped = set()  # keys that were to be forgotten
        self.reserved = set() # keys that mean the same as a told one ("my sister's", "Nadia's")
        self.order = []       # keys in the order of telling, updates included
        self.recalls = []     # (index of the answering turn, key, or None for a fact never told)
        self.pending = []     # (question, answer) pairs that scenes left
        self.extra = []       # what else was told, as the assistant would say it
        self.topics = []
        self.reads = True     # documents are part of the filler
        self.alike = None     # a kind of ALIKE: most facts are of it

    def add(self, user, assistant):
        self.turns += [('user', user), ('assistant', assistant)]

    # -- facts
    def noun(self):
        r, x = self.r, self.r.random()
        if self.alike and ALIKE[self.alike] and r.random() < .75:
            return r.choice(ALIKE[self.alike])
        return (r.choice(COMMON) if x < .28 else r.choice(phrases.PRIVATE) if x < .48 else
                r.choice(list(VALUES)) if x < .88 else
                f'{r.choice(ADJECTIVES + COLOURS)} {r.choice(NOUNS)} '
                + r.choice(('code', 'number', 'name', 'word')))

    def new_key(self):
        """An (owner, noun) not told yet; often the noun of another one, with a different owner."""
        r = self.r
        while True:
            x = r.random()
            owner = ('my' if x < (.8 if self.alike else .6) else
                     f"my {r.choice(RELATIVES)}'s" if x < .85 else f"{proper(r)}'s")
            noun = self.noun()
            told = [k[1] for k in self.facts if ':' not in k[1] and k[0] not in ('the', 'key')]
            if told and r.random() < (.15 if self.alike else .4):
                noun = r.choice(told)
            if (owner, noun) not in self.facts.keys() | self.dropped | self.reserved:
                return owner, noun

    def new_value(self, key):
        r, noun = self.r, key[1]
        if noun.startswith('place:'):
            return place(r)
        value = (VALUES[noun](r) if noun in VALUES else proper(r) if noun.endswith('name') else
                 pseudo(r) if noun.endswith('word') else digits(r, 3, 4, 5, 6))
        return value.lower() if r.random() < .08 else value

    def near_value(self, key, old):
        """Another value, for a correction: often the old one with a digit or letter changed."""
        r = self.r
        if len(old) > 2 and old.isalnum() and r.random() < .5:
            i = r.randrange(1, len(old))
            new = r.choice('0123456789' if old[i].isdigit() else 'aeiounrst')
            new = old[:i] + (new.upper() if old[i].isupper() else new) + old[i + 1:]
            if new != old:
                return new
        return self.new_value(key)

    def learn(self, key, value=None):
        self.outdate(key)
        self.facts[key] = value or self.new_value(key)
        self.order.append(key)
        return self.facts[key]

    def outdate(self, key):
        """What scenes left to ask is dropped where it has the fact's value."""
        if key in self.facts:
            old = self.facts[key]
            self.pending = [pair for pair in self.pending if old not in pair[1]]

    def drop(self, key):
        self.outdate(key)
        del self.facts[key]
        self.dropped.add(key)
        self.order = [k for k in self.order if k != key]

    def gone(self, key):
        """(question, answer) about a fact that was to be forgotten."""
        return (phrases.ask(self.r, key),
                f'{phrases.say(key)}{marked("something I have forgotten, as you asked")}.')

    def words(self, key):
        value = self.facts.get(key, '')
        return {**phrases.owner_words(key[0]), **phrases.noun_words(key[1]), 'v': value,
                'm': marked(value)}

    def statement(self, key):
        r, (owner, noun) = self.r, key
        if r.random() > OLD or not phrases.natural(noun) and ':' not in noun:
            return phrases.tell(r, key, self.facts[key])
        special = (TELL_MINE if owner == 'my' else TELL_OTHER).get(family(noun), ())
        if noun.startswith('place:'):
            template = r.choice(TELL_PLACE)
        else:
            template = r.choice(special) if special and r.random() < .55 else TELL
        return template.format(**self.words(key))

    def tell(self):
        """One to four facts in a turn, as sentences or joined."""
        r = self.r
        n = r.choices((1, 2, 3, 4), (.7, .2, .07, .03))[0]
        keys = []
        introduction = [('my', noun) for noun in ('name', 'city', 'job', 'age', 'favourite colour')]
        for _ in range(n):
            free = [k for k in introduction if k not in self.facts and k not in self.dropped]
            if n > 1 and free and r.random() < .4:
                key = r.choice(free) if keys else free[0]
            elif r.random() < (.75 if self.alike == 'places' else .12):
                key = 'my', 'place:' + r.choice(OBJECTS)
            else:
                key = self.new_key()
            if key not in self.facts:
                self.learn(key)
                keys.append(key)
        if not keys:
            return
        parts = [self.statement(k) for k in keys]
        if len(parts) > 1 and r.random() < .6:
            parts = [parts[0].rstrip('.!?')] + [uncap(p).rstrip('.!?') for p in parts[1:]]
            comma, last = r.choice(((', ', ' and '), (', ', ' and '), (', ', ', and '), ('; ', '; '),
                                    (', ', ', '), (', ', ', but '), (', and ', ', and ')))
            text = comma.join(parts[:-1]) + last + parts[-1] + r.choice('..!')
        else:
            text = ' '.join(parts)
        if ('my', 'name') in keys and r.random() < .5:
            greeting = r.choice(GREETINGS)
            text = greeting + (uncap(text) if greeting.endswith(', ') else text)
        elif r.random() < .35:
            text = self.lead_in(text)
        self.add(text, self.acknowledgement(keys))

    def lead_in(self, text):
        """Put "By the way, " or the like in front, and adapt the case of the next letter."""
        r = self.r
        lead = r.choice(BEFORE_TELLING) if r.random() < .6 else expand(
            r, '(Hello,|Hi,|Okay,|Well,|So,|Listen:|Attention:|Oh,|Before I forget:|Another thing:|Also,|'
               'For later:|A fact:|Good to know:|FYI:|Important:|Please note:)') + ' '
        return lead + (text if lead.endswith('? ') else uncap(text))

    def acknowledgement(self, keys):
        r = self.r
        if ('my', 'name') in keys and r.random() < .4:
            return r.choice(ACK_NAME).format(**self.words(('my', 'name')))
        if len(keys) > 1 or r.random() < .5:
            return r.choice(ACK_SHORT)
        key = keys[0]
        if r.random() > OLD or not phrases.natural(key[1]):
            return scenes.ack(self, key)
        table = ACK_PLACE if key[1].startswith('place:') else ACK
        return r.choice(table).format(**self.words(key))

    def update(self):
        """A fact changes; the value told last is valid."""
        r = self.r
        keys = [k for k in self.facts
                if not k[1].startswith('list:') and k[0] not in ('the', 'key')]
        if not keys:
            return self.tell()
        key = r.choice(keys)
        old = self.facts[key]
        value = self.learn(key)
        if r.random() < OLD and key[1].startswith('place:'):
            text = r.choice(UPDATE_PLACE).format(**self.words(key))
        elif r.random() < OLD and phrases.natural(key[1]):
            text = r.choice(UPDATE).format(**self.words(key))
        elif r.random() < .12:
            text = self.statement(key)
        else:
            last = key[1].split(' ')[-1]
            alone = sum(k[1].split(' ')[-1] == last for k in keys) == 1 and ' ' in key[1]
            text = phrases.change(r, key, value, old, alone)
        x = r.random()
        ack = ('Okay, I have updated that.' if x < .4 else scenes.ack(self, key) if x < .6 or
               not phrases.natural(key[1]) and ':' not in key[1] else
               r.choice(ACK_PLACE if ':' in key[1] else ACK_UPDATE).format(**self.words(key)))
        self.add(text, ack)

    def tell_list(self):
        r = self.r
        noun = r.choice(list(LISTS))
        key = ('my', 'list:' + noun)
        items = (known(r, LISTS[noun], .9) for _ in range(r.randint(2, 5)))
        value = self.learn(key, ', '.join(items))
        ack = r.choice((f'Okay, your {noun} is:{marked(value)}.',
                        'Okay, I will remember your list.', 'Noted.'))
        self.add(r.choice(TELL_LIST).format(**self.words(key)), ack)

    SCENES = ((scenes.correct, .24), (scenes.forget, .12), (scenes.chain, .11), (scenes.person, .11),
              (scenes.pets, .05), (scenes.whose, .12), (scenes.shopping, .14), (scenes.plan, .07),
              (scenes.thing, .05), (scenes.deed, .07), (scenes.amount, .04))

    def scene(self):
        makers, weights = zip(*self.SCENES)
        left = self.r.choices(makers, weights)[0](self)
        if left and self.r.random() < .35:
            self.add(*self.r.choice(left))
        self.pending += left

    def fact(self, scenes_too=.25):
        x = self.r.random()
        if x < scenes_too:
            self.scene()
        elif x < scenes_too + .16 and self.facts:
            self.update()
        elif x < scenes_too + .19:
            self.tell_list()
        else:
            self.tell()

    # -- questions
    def question(self, key):
        """(question, the answer up to the value)"""
        r, (owner, noun) = self.r, key
        old = r.random() < OLD and (phrases.natural(noun) or ':' in noun)
        if not old and owner not in ('the', 'key') and not noun.startswith('list:'):
            return phrases.ask(r, key), phrases.say(key)
        special = (ASK_MINE if owner == 'my' else ASK_OTHER).get(family(noun), ())
        if owner == 'the':
            pair = r.choice((('What is the {n}?', 'The {n} is'),
                             ('What was the {n} in the text?', 'The {n} is'),
                             ('Do you remember the {n}?', 'The {n} is')))
        elif owner == 'key':
            pair = ('What is the value of {n}?', 'The value of {n} is')
        elif noun.startswith('place:'):
            pair = r.choice(ASK_PLACE)
        elif noun.startswith('list:'):
            pair = r.choice(ASK_LIST)
        else:
            pair = r.choice(special if special and r.random() < .5 else ASK)
        words = self.words(key)
        return pair[0].format(**words), pair[1].format(**words)

    def answer(self, key):
        """(question, whole answer, value marked)"""
        question, start = self.question(key)
        return question, f'{start}{marked(self.facts[key])}.'

    def ask(self):
        r, x = self.r, self.r.random()
        if self.pending and x < .28:
            return self.add(*r.choice(self.pending[-4:] if r.random() < .5 else self.pending))
        if not self.order or x > .88:
            return self.ask_unknown()
        if x < .43:
            return self.ask_whether()
        old_first = self.order[:max(1, len(self.order) // 2)]
        key = r.choice(old_first if r.random() < .5 else self.order)
        self.recalls.append((len(self.turns) + 1, key))
        self.add(*self.answer(key))
        if r.random() < .3:
            self.follow_up(key)
        elif r.random() < .08 and ':' not in key[1] and key[0] not in ('the', 'key'):
            self.change_asked(key)

    def change_asked(self, key):
        """ "It's 99 now." right after a question about the fact."""
        r, old = self.r, self.facts[key]
        new = self.near_value(key, old)
        self.learn(key, new)
        text = expand(r, "((It is|It's|That is|That's) {v} now.|(No|Wrong|Not any more), (it is|it's) {v}( now|).|"
                         "(It|That) (has changed|changed|was changed) to {v}.|(Change|Update) (it|that) to "
                         "{v}(|, please).|(Make|Let's make) (it|that) {v}.|(By now|Now|Since today) (it is|it's) {v}.|"
                         "Not {u} any more, (it's|it is) {v} now.|The new one is {v}.)")
        self.add(text.format(v=new, u=old), r.choice(('Okay, I have updated that', 'Got it', 'Okay'))
                 + r.choice(('.', f': {scenes.uncap_answer(phrases.say(key))}{marked(new)}.')))

    def follow_up(self, key):
        """ "And my sister's?" after a question about the same thing; "And my pin code?"."""
        r = self.r
        same = [k for k in self.facts if k[1] == key[1] and k[0] != key[0]
                and k[0] not in ('the', 'key')]
        noun = key[1]
        if ':' in noun or key[0] in ('the', 'key'):
            return
        if r.random() < .15:      # somebody who was not mentioned
            other = r.choice(('my', f"my {r.choice(RELATIVES)}'s", f"{proper(r)}'s")), noun
            if other in self.facts or other in self.dropped:
                return
            answer = f'{phrases.say(other)}{marked(UNKNOWN[""])}.'
        elif same:
            other = r.choice(same)
            answer = f'{phrases.say(other)}{marked(self.facts[other])}.'
        else:
            more = [k for k in self.facts if k[0] == key[0] and k != key and phrases.natural(k[1])]
            if more:
                other = r.choice(more)
                self.add(fill(r, r.choice(phrases.GENERIC['follow_noun']), other),
                         f'{phrases.say(other)}{marked(self.facts[other])}.')
            return
        who = phrases.owner_words(other[0])['w']
        plain_who = '(And|What about|And what about|How about) '
        if other[0] == 'my':
            question = expand(r, plain_who + '(me|mine|I)?')
        elif phrases.natural(noun) and r.random() < .6:
            question = fill(r, r.choice(phrases.GENERIC['follow_owner']), other)
        else:
            question = expand(r, plain_who + '{}?').replace('{}', who)
        self.add(question, answer)

    def ask_whether(self):
        """Is it so? Did I tell you? Whose is it?"""
        r = self.r
        keys = [k for k in self.facts if ':' not in k[1] and k[0] not in ('the', 'key')]
        x = r.random()
        if not keys or x < .15:
            key = self.new_key() if not keys or r.random() < .5 else r.choice(keys)
            if key in self.facts:
                answer = f'Yes, {scenes.uncap_answer(phrases.say(key))}{marked(self.facts[key])}.'
            elif key in self.dropped:
                return
            else:
                answer = f"No, you haven't told me {phrases.owner_words(key[0])['y']} {key[1]}."
            return self.add(expand(r, f'(Did I tell you|Have I told you|Do you know|Did I mention|Did I give '
                                      f'you) {key[0]} {key[1]}( already|)?'), answer)
        key = r.choice(keys)
        value = self.facts[key]
        if x < .4:
            alone = [k for k in keys if k[1] == key[1] and self.facts[k].lower() == value.lower()]
            question = phrases.who(r, key, value) if len(alone) == 1 else None
            if question:
                name = phrases.owner_words(key[0])
                whose = name['YW'] if key[0] == 'my' else cap(name['y'][:-2])
                rest = phrases.say(key)
                if rest.startswith(whose + ' '):
                    self.add(question, marked(whose) + f'{rest[len(whose):]} {value}.')
                else:
                    self.add(question, f'{rest} {value}.')
            return
        right = r.random() < .5
        other = value if right else self.new_value(key)
        question = phrases.whether(r, key, other)
        if question and other.lower() == value.lower() or question and not right:
            self.add(question, f"{'Yes' if right else 'No'}, {scenes.uncap_answer(phrases.say(key))}"
                               f'{marked(value)}.')

    def ask_unknown(self):
        r = self.r
        if self.dropped and r.random() < .3:
            return self.add(*self.gone(r.choice(sorted(self.dropped))))
        key = ('my', 'place:' + r.choice(OBJECTS)) if r.random() < .2 else self.new_key()
        if key in self.facts or key in self.dropped:
            return
        question, start = self.question(key)
        what = ('place' if key[1].startswith('place:') else
                start.split()[-1] if key[1] in ('city', 'name') else '')
        self.recalls.append((len(self.turns) + 1, None))
        self.add(question, f'{start}{marked(UNKNOWN.get(what, UNKNOWN[""]))}.')

    def filler(self, long=False):
        self.topics.append(fillers.filler(self, long))
        if self.r.random() < .04:
            scenes.said(self)

    # -- documents with a hidden fact, lists of keys and values, copying
    def secret(self, n_documents=None):
        r = self.r
        n = r.randint(0, 3) if n_documents is None else n_documents
        kind = r.choice(SECRETS)
        value = self.learn(('the', kind), pseudo(r) if kind == 'code word' else
                           sequence(r) if kind == 'sequence of digits' else
                           digits(r, 4, 5, 5, 5, 6))
        needle = r.choice((f'The {kind} is {value}. Remember it. {value} is the {kind}.',
                           f'The {kind} is {value}. Remember it.', f'The {kind} is {value}.'))
        parts = [fillers.document(r) for _ in range(n)] + [needle]
        parts += [fillers.document(r) for _ in range(n and r.randint(0, n))]
        self.add(r.choice((IMPORTANT, 'Read this text: ', '')) + ' '.join(parts),
                 r.choice(('Okay, I have read it.', f'The {kind} is{marked(value)}.',
                           'Done reading.')))

    def key_values(self, n=None):
        r = self.r
        table = {}
        while len(table) < (n or 2) or (n is None and len(table) < 12 and r.random() < .83):
            key = r.choice(NOUNS) if r.random() < .4 else pseudo(r)
            table[key] = digits(r, 3, 4, 5) if r.random() < .7 else pseudo(r)
        form, join = r.choice((('{}: {}', ', '), ('{} = {}', ', '),
                               ('The value of {} is {}.', ' ')))
        text = join.join(form.format(k, v) for k, v in table.items())
        if r.random() < .35:      # the question comes first
            key = r.choice(list(table))
            self.recalls.append((len(self.turns) + 1, ('key', key)))
            return self.add(f'Find the value of {key} in this list. {text}',
                            f'The value of {key} is{marked(table[key])}.')
        self.add(f'Here is a list: {text}', r.choice(('Okay, I have read the list.', 'Noted.')))
        for key in r.sample(list(table), min(len(table), r.choice((1, 2, 3)))):
            self.recalls.append((len(self.turns) + 1, ('key', key)))
            self.add(f'What is the value of {key}?', f'The value of {key} is{marked(table[key])}.')

    def copy(self):
        r = self.r
        x = r.random()
        text = (' '.join(pseudo(r) if r.random() < .5 else r.choice(NOUNS + ADJECTIVES + VERBS)
                         for _ in range(r.randint(2, 10))) if x < .5 else
                digits(r, *range(3, 13)) if x < .6 else runs(r, 10) if x < .7 else fillers.sentence(r)[:-1])
        self.add(r.choice(REPEAT) + text, marked(text))


MODES = {  # chance of (fact, question, document with a secret or key-value list, copy, long filler)
    'dense': (.34, .40, .06, .08, 0), 'mixed': (.2, .3, .06, .05, .1),
    'sparse': (.08, .15, .03, .03, .25), 'document': (.08, .15, .35, .08, .1),
    'about': (.1, .25, 0, .02, 0), 'talk': (.02, .05, 0, .04, 0)}


def conversation(r, n_tokens, count, mode):
    """A conversation of at least n_tokens; count(text) gives a text's tokens."""
    c = Conversation(r)
    c.reads = mode not in ('dense', 'about', 'talk')
    c.alike = r.choice(list(ALIKE)) if r.random() < .2 else None
    fact, ask, find, copy, long = MODES[mode]
    used = seen = 0
    if r.random() < .3:
        c.filler()
    for _ in range(r.choice((0, 1, 2)) if mode in ('about', 'talk') else r.randint(1, 3)):
        c.fact()
    while used < n_tokens:
        x = r.random()
        if x < fact:
            c.fact()
        elif x < fact + ask:
            c.ask()
        elif x < fact + ask + find:
            c.secret() if r.random() < .4 else c.key_values()
        elif x < fact + ask + find + copy:
            c.copy()
        else:
            c.filler(long=x < fact + ask + find + copy + long)
        if r.random() < {'about': .2, 'talk': .08}.get(mode, .03):
            r.choice((scenes.summary, scenes.summary, scenes.topics, scenes.said))(c)
        used += sum(count(text) + 2 for _, text in c.turns[seen:])
        seen = len(c.turns)
    return c


def grass(r, n_tokens, count):
    """One long repetitive document with a number in it (as InfiniteBench's R.PassKey and
    R.Number)."""
    n = max(2, (n_tokens - 60) // count(' ' + GRASS))
    before = r.randrange(0, int(n * .95))
    kind = r.choice(('pass key', 'sequence of digits', 'secret number'))
    value = sequence(r) if kind == 'sequence of digits' else digits(r, 5)
    needle = f'The {kind} is {value}. Remember it. {value} is the {kind}.'
    text = ' '.join([GRASS] * before + [needle] + [GRASS] * (n - before))
    return ([('user', IMPORTANT + text), ('assistant', 'Okay, I have read it.')],
            [(f'What is the {kind}?', f'The {kind} is{marked(value)}.')])


def memory(r, n_tokens, n_facts, count, kind='chat', scatter=True):
    """(turns, questions): n_facts facts within about n_tokens of filler, and (question, answer)
    pairs about all facts that are still valid. scatter: facts anywhere; else all at the start."""
    if kind == 'grass':
        return grass(r, n_tokens, count)
    c = Conversation(r)
    c.alike = r.choice(list(ALIKE)) if r.random() < .5 else None
    blocks = []

    def grab(make, *args):
        make(*args)
        turns, c.turns = c.turns, []
        return turns

    if kind == 'chat':
        blocks = [grab(c.fact, .1 if c.alike else .25) for _ in range(n_facts)]
    elif kind == 'passkey':
        blocks = [grab(c.secret, 0) for _ in range(n_facts)]
    else:
        while len(c.facts) < n_facts:
            c.facts['key', pseudo(r)] = digits(r, 4)
        items = [(k[1], v) for k, v in c.facts.items()]
        blocks = [[('user', 'Here is a list: ' + ', '.join(f'{k}: {v}' for k, v in items[i:i + 8])),
                   ('assistant', 'Noted.')] for i in range(0, len(items), 8)]

    def size(turns):
        return sum(count(text) + 3 for _, text in turns)

    need, fill = n_tokens - sum(map(size, blocks)), []
    while need > 0:
        fill.append(grab(c.filler, r.random() < .35))
        need -= size(fill[-1])
    # none in the last 5 %: a fact that is still among the newest units would not test anything
    at = sorted(r.randrange(max(1, int(len(fill) * .95))) if scatter else 0 for _ in blocks)
    turns = []
    for i, filler in enumerate(fill):
        while at and at[0] == i:
            turns += blocks[len(blocks) - len(at)]
            at.pop(0)
        turns += filler
    for _ in at:
        turns += blocks[len(blocks) - len(at)]
        at = at[1:]
    questions = [c.answer(key) for key in c.facts] + c.pending
    r.shuffle(questions)
    return turns, questions


def mistype(r, word):
    """The word with a letter left out, doubled, or swapped with the next one."""
    i = r.randrange(1, len(word) - 1)
    return r.choice((word[:i] + word[i + 1:], word[:i] + word[i] + word[i:],
                     word[:i] + word[i + 1] + word[i] + word[i + 2:]))


SHORTCUTS = {'what is': 'whats', "what's": 'whats', 'i am ': 'im ', "i'm": 'im', "it's": 'its',
             "don't": 'dont', "can't": 'cant', 'you': 'u', 'please': 'pls', 'favourite': 'fav', 'are you': 'r u'}


def sloppy(r, turns):
    """A user who never uses capitals, often no final punctuation either, or mistypes words."""
    strip, lower, short = r.random() < .6, r.random() < .85, r.random() < .3
    typos = r.choice((0, .04, .1))
    out = []
    for role, text in turns:
        if role == 'assistant':      # only a value told in lower case is answered so
            parts = text.split(MARK)
            parts[1::2] = [p.lower() if lower else p for p in parts[1::2]]
            text = MARK.join(parts)
        else:
            text = text.lower() if lower else text
            if short and len(text) < 80:
                for long, brief in SHORTCUTS.items():
                    if r.random() < .5:
                        text = text.replace(long, brief)
            if typos and len(text) < 200:
                text = ' '.join(mistype(r, w) if w in phrases.COMMON_WORDS and r.random() < typos
                                else w for w in text.split(' '))
            if strip and text[-1] in '.?!':
                text = text[:-1]
        out.append((role, text))
    return out


if __name__ == '__main__':
    import sys
    for mode in MODES:
        print('=====', mode)
        seed = random.Random(int(sys.argv[1]))
        for role, text in conversation(seed, 300, lambda t: len(t) // 4, mode).turns:
            print(f"{role}: {text.replace(MARK, '|')}")
