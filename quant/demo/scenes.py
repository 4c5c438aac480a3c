"""Short passages of talk in which several turns belong together: corrections, lists, appointments,
people who are spoken of by name, by relation and by "she", questions about what was said.

Each function tells its part at once and returns questions: (question, answer) pairs that stay
right for the rest of the conversation."""
import phrases
from phrases import GENERIC, ask, expand, fill, one_of, say, tell, uncap
from words import (ADJECTIVES, ANIMALS, COLLECTIONS, COLOURS, DAYS, EVENTS, LISTS, LIST_ITEMS, MARK,
                   MONTHS, NAMES, NOUNS, NUMBERS, OBJECTS, PETS, PET_NAMES, RELATIVES, cap, clock,
                   known, marked, place, proper, pseudo)

WOMEN = set("sister mother aunt wife daughter grandmother".split())
MEN = set("brother father uncle husband son grandfather".split())


def ack(c, key=None):
    """An acknowledgement, sometimes with the fact in it."""
    r = c.r
    if key is None or r.random() < .5:
        return r.choice(('Okay, I will remember that.', 'Got it, thanks for telling me.', 'Noted.',
                         'Thanks, I will keep that in mind.', 'Okay.'))
    return r.choice(GENERIC['ack']) + ' ' + uncap_answer(say(key)) + marked(c.facts[key]) + '.'


def uncap_answer(text):
    """"Your code is" for the middle of a sentence; names keep their capital letter."""
    return text[0].lower() + text[1:] if text.startswith(('Your ', 'You ')) else text


def statement(c, key, value=None):
    return f'{say(key)}{marked(value or c.facts[key])}.'


# ---------------------------------------------------------------------------- changes of one's mind
def correct(c):
    """A fact, and right after it the correction."""
    r = c.r
    key = c.new_key()
    if not phrases.natural(key[1]) and r.random() < .5:
        key = c.new_key()
    if key in c.facts:
        return []
    old = c.learn(key)
    c.add(tell(r, key, old), ack(c, key))
    new = c.near_value(key, old)
    c.learn(key, new)
    c.add(fill(r, r.choice(GENERIC['correct']), key, v=new, u=old),
          r.choice(('Okay, I have corrected that', 'Thanks, corrected', 'Got it', 'Okay', 'No problem'))
          + r.choice(('.', f': {uncap_answer(say(key))}{marked(new)}.')))
    return [(ask(r, key), statement(c, key))] if r.random() < .5 else []


FORGOT = ('Okay, I have forgotten it.', 'Done, I have forgotten that.', 'Okay, forgotten.')


def forget(c):
    """Some fact is to be forgotten: an old one by name, or the one just told by "that"."""
    r = c.r
    keys = [k for k in c.facts if phrases.natural(k[1]) and k[0] not in ('the', 'key')]
    ended = [k for k in c.facts if phrases.over(r, k, c.facts[k])]
    if ended and r.random() < .4:
        key = r.choice(ended)
        value = c.facts[key]
        c.add(phrases.over(r, key, value), r.choice(FORGOT + ('Okay, I have updated that.',)))
        c.drop(key)
        question = phrases.whether(r, key, value)
        return [(question, 'No, not any more.')] if question else [c.gone(key)]
    if keys and r.random() < .5:
        key = r.choice(keys)
        text = fill(r, r.choice(GENERIC['forget']), key)
    else:
        key = c.new_key()
        if key in c.facts:
            return []
        value = c.learn(key)
        c.add(tell(r, key, value), ack(c, key))
        if phrases.natural(key[1]) and r.random() < .4:
            text = fill(r, r.choice(GENERIC['forget']), key)
        else:
            text = expand(r, r.choice(GENERIC['forget_last']))
    c.add(text, r.choice(FORGOT))
    c.drop(key)
    return [c.gone(key)]


# ------------------------------------------------------------------------------------------ people
def chain(c):
    """ "My sister is called Nadia. Nadia lives in Malmo." Where does my sister live?"""
    r = c.r
    relation, name = r.choice(RELATIVES), proper(r)
    owner, by_name = f"my {relation}'s", f"{name}'s"
    noun = c.noun()
    keys = (owner, 'name'), (by_name, noun)
    if any(k in c.facts for k in (*keys, (owner, noun))) or noun == 'name':
        return []
    first = c.learn(keys[0], name)
    value = c.learn(keys[1])
    parts = [tell(r, keys[0], first) if r.random() < .6 else
             expand(r, f'(My {relation} is {name}.|{name} is my {relation}.|I have a {relation}, '
                       f'{name}.|My {relation} is called {name}.)'), tell(r, keys[1], value)]
    if r.random() < .3:
        parts.reverse()
    if r.random() < .5:
        c.add(' '.join(parts), ack(c))
    else:
        for part in parts:
            c.add(part, ack(c))
    relative = owner, noun
    c.reserved.add(relative)
    out = [(ask(r, relative), f'{say(relative)}{marked(value)}.')]
    if r.random() < .4:
        out.append((expand(r, f'(Who is {name}|Do you know {name}|And who is {name})?'),
                    f'{name} is{marked("your " + relation)}.'))
    return out


def person(c):
    """Somebody introduced by name, then spoken of as "she" or "he"."""
    r = c.r
    relation, name = r.choice(RELATIVES), proper(r)
    they = 'she' if relation in WOMEN else 'he' if relation in MEN else r.choice(('she', 'he'))
    owner, by_name = f"my {relation}'s", f"{name}'s"
    nouns = [c.noun() for _ in range(r.choice((1, 1, 2)))]
    nouns = [n for i, n in enumerate(nouns) if n not in nouns[:i] and n != 'name']
    introduced = r.random() < .8
    base = owner if r.random() < .6 or not introduced else by_name
    keys = [(base, n) for n in nouns]
    if not nouns or any(k in c.facts for k in [*keys, (owner, 'name')]):
        return []
    parts = []
    if introduced:
        parts.append(one_of(r, f'I have a {relation}, {name}.|My {relation} is {name}.|My {relation} is '
                               f'called {name}.|This is about my {relation} {name}.'))
        c.learn((owner, 'name'), name)
    for i, key in enumerate(keys):
        value = c.learn(key)
        parts.append(tell(r, (they if parts else owner, key[1]), value))
    joined = ' '.join(parts)
    if len(parts) > 1 and r.random() < .3:
        joined = parts[0][:-1] + ' and ' + parts[1][0].lower() + parts[1][1:] \
            + ' ' + ' '.join(parts[2:])
    c.add(joined.strip(), ack(c))
    out = []
    for key in keys:
        other = (by_name if key[0] == owner else owner, key[1])
        c.reserved.add(other)
        asked = other if introduced and r.random() < .6 else key
        out.append((ask(r, asked), f'{say(asked)}{marked(c.facts[key])}.'))
    if r.random() < .5:      # at once, by the pronoun
        key = keys[-1]
        c.add(ask(r, (they, key[1])), f'{say((they, key[1]))}{marked(c.facts[key])}.')
    return out


def pets(c):
    """A pet and something about it."""
    r = c.r
    pet = r.choice(PETS)
    name = r.choice(PET_NAMES) if r.random() < .5 else proper(r)
    key = 'my', f"{pet}'s name"
    if key in c.facts:
        return []
    c.learn(key, name)
    they = r.choice(('She', 'He', 'It'))
    years, where = str(r.randint(1, 15)), place(r)
    what, question, answer = r.choice((
        (f'{{}} is {years} years old.', f'How old is (my {pet}|{name})?', f'{name} is{marked(years)}.'),
        (f'{{}} sleeps {where}.', f'Where does (my {pet}|{name}) sleep?',
         f'{name} sleeps{marked(where)}.'),
        (f'{{}} loves {(item := r.choice(LIST_ITEMS))}.', f'What does (my {pet}|{name}) love?',
         f'{name} loves{marked(item)}.')))
    c.add(tell(r, key, name) + ' ' + what.format(r.choice((they, name, f'My {pet}'))), ack(c))
    c.extra.append(f'{name} is your {pet}')
    return [(expand(r, question), answer),
            (expand(r, f'(Who is {name}|And who is {name})?'), f'{name} is{marked("your " + pet)}.')]


def whose(c):
    """The same thing of two or three people: whose is which?"""
    r = c.r
    noun = c.noun()
    owners = r.sample(NAMES, r.choice((2, 2, 3)))
    keys = [(f"{o}'s", noun) for o in owners]
    if any(k in c.facts for k in keys):
        return []
    values = [c.learn(k) for k in keys]
    if len(set(values)) < len(values):
        for k in keys:
            c.drop(k)
        return []
    parts = [tell(r, k, v) for k, v in zip(keys, values)]
    if r.random() < .5:
        c.add(' '.join(parts), ack(c))
    else:
        join = r.choice((' and ', ', and ', ', but ', '; ', ', '))
        c.add(join.join([p[:-1] if i < len(parts) - 1 else p
                         for i, p in enumerate([parts[0]] + [uncap(p) for p in parts[1:]])]), ack(c))
    i = r.randrange(len(keys))
    question = phrases.who(r, keys[i], values[i])
    if not question:
        return []
    return [(question, marked(owners[i]) + statement_rest(keys[i], values[i]))]


def statement_rest(key, value):
    """The part of "Anna lives in Oslo." after the name."""
    owner = key[0][:-2]
    return f'{say(key)} {value}.'[len(owner):]


# ------------------------------------------------------------------------------------------- lists
TELL_LIST = {
    'shopping list': '(I need to|I have to|I want to|We must|I should) buy {v}.|For the shop: {v}.|'
                     'We (need|are out of|ran out of) {v}.',
    'packing list': '(I need to|I have to|I must) pack {v}.|In my suitcase I (need|want) {v}.',
    'guest list': '(I invited|I am inviting|My guests are|We invited) {v}.',
    'reading list': 'I want to read books by {v}.',
    'to-do list': 'I (plan|have|want) to do {v} (this week|today|).'}
ASK_LIST = {
    'shopping list': 'What (do I need|do I have|should I|must I|did I want) to buy?|What do I need from '
                     'the shop?', 'packing list': 'What (do I need|do I have|must I) to pack?',
    'guest list': 'Who (did I invite|is invited|are my guests)?',
    'reading list': 'What do I want to read?', 'to-do list': 'What do I (plan|have) to do?'}
LIST_SAID = "(What is|What's) on my {n}( now|)?|(Read|Tell|Show|Give) me my {n}(.| please.)|My {n}?|" \
            '(Do you remember|What was|Repeat|I need) my {n}(?|)|What do I have on my {n}?'


def join_items(r, items):
    if len(items) == 1:
        return items[0]
    last = r.choice((', ', ' and ', ' and ', ', and '))
    return ', '.join(items[:-1]) + last + items[-1]


def shopping(c):
    """A list that changes: things are added and taken off; questions about its parts."""
    r = c.r
    noun = r.choice(list(LISTS) + ['shopping list'] * 3)
    key = 'my', 'list:' + noun
    if key in c.facts:
        return []
    many = {'shopping list': LIST_ITEMS, 'packing list': OBJECTS}.get(noun, LISTS[noun])
    items = r.sample(many, r.randint(2, 5))
    if r.random() < .2:
        items[r.randrange(len(items))] = pseudo(r)
    text = join_items(r, items)
    form = r.choice((f'My {noun}: {{v}}.', f'My {noun} is: {{v}}.', f'Here is my {noun}: {{v}}.',
                     f'(Put|Write) {{v}} on my {noun}.', f'On my {noun} (are|I have|there are) {{v}}.',
                     TELL_LIST[noun], TELL_LIST[noun]))
    c.add(cap(expand(r, '(' + form + ')').replace('{v}', text)),
          ack(c) if r.random() < .5 else f'Okay, your {noun} is:{marked(", ".join(items))}.')
    for _ in range(r.choice((0, 1, 1, 2, 3))):
        if r.random() < .5 or len(items) < 3:
            new = r.choice([i for i in many if i not in items])
            items = items + [new]
            text = expand(r, f'(Add {new} to (my|the) {noun}.|Put {new} on (my|the) {noun}.|Add {new}.|'
                             f'And {new}.|Also {new}.|I also need {new}.|(My|The) {noun} also has {new}.)')
        else:
            old = r.choice(items)
            items = [i for i in items if i != old]
            text = one_of(r, f'(Remove|Delete|Take|Strike) {old} (from|off) (my|the) (list|{noun}).|I '
                             f"don't need {old} any more.|I (got|have) {old} already.|Without {old}, "
                             f'please.|No {old}.|Take the {old} off (my|the) (list|{noun}).')
        c.add(cap(text), f'Okay, your {noun} is:{marked(", ".join(items))}.' if r.random() < .7 else
              'Okay, I have changed your list.')
    whole = ', '.join(items)
    c.learn(key, whole)
    return list_questions(c, noun, items, many)


def list_questions(c, noun, items, many):
    r = c.r
    other = r.choice([i for i in many if i not in items])
    there = r.choice(items)
    asks = [(expand(r, '(' + (LIST_SAID if r.random() < .6 else ASK_LIST[noun]) + ')').format(n=noun),
             f'Your {noun} is:{marked(", ".join(items))}.')]
    asks.append(r.choice((
        (one_of(r, f'Is {there} on my (list|{noun})?|Did I put {there} on my {noun}?|Is there {there} on '
                   f'my (list|{noun})?'), f'Yes, {there} is on your {noun}.'),
        (one_of(r, f'Is {other} on my (list|{noun})?|Did I put {other} on my {noun}?|Is there {other} on '
                   f'my (list|{noun})?'), f'No, {other} is not on your {noun}.'),
        (one_of(r, f'How many things are on my {noun}?|How (long|many items) is my {noun}?'),
         f'Your {noun} has{marked(NUMBERS[len(items)])} things.'),
        (one_of(r, f'What (is|comes) first on my {noun}?|What is the first thing on my {noun}?'),
         f'First on your {noun} is{marked(items[0])}.'),
        (one_of(r, f'What (is|comes) last on my {noun}?|What is the last thing on my {noun}?'),
         f'Last on your {noun} is{marked(items[-1])}.'))))
    return asks


# ------------------------------------------------------------------------------------ appointments
def plan(c):
    r = c.r
    name, day = proper(r), r.choice(DAYS)
    time = clock(r) if r.random() < .6 else r.choice(('noon', 'midnight', 'eight', 'half past six'))
    x = r.choice(NOUNS)
    when = r.choice((f'on {day}', f'on {day} at {time}', f'at {time}', f'on {day} at {time}'))
    if r.random() < .5:
        verb, ing = r.choice((('meet', 'meeting'), ('see', 'seeing'), ('visit', 'visiting'),
                              ('call', 'calling'), ('help', 'helping')))
        where = f' in the {x}' if r.random() < .3 else ''
        c.add(one_of(r, f"(I'm|I am) {ing} {name}{where} {when}.|I (will|have to|must|want to) {verb} "
                        f"{name}{where} {when}.|{cap(when)} (I'm|I am) {ing} {name}{where}."),
              r.choice((ack(c), f'Okay, you are {ing}{marked(name + where + " " + when)}.')))
        c.extra.append(f'you are {ing} {name} {when}')
        out = [(expand(r, f'When (am I {ing}|will I {verb}|do I {verb}) {name}?'),
                f'You are {ing} {name}{marked(when)}.'),
               (expand(r, f'Who (am I {ing}|will I {verb}|do I {verb}) {when}?'),
                f'You are {ing}{marked(name)} {when}.')]
        if where:
            out.append((f'Where am I {ing} {name}?', f'You are {ing} {name}{marked(where[1:])}.'))
        return out
    event = r.choice(EVENTS)
    the = r.choice(('the', 'my'))
    yours = 'your' if the == 'my' else 'the'
    starts = expand(r, '(is|starts|begins|takes place)')
    c.add(expand(r, f'({cap(the)} {event} {starts} {when}.|{cap(when)} {the} {event} {starts}.|'
                    f"{cap(the)} {event}? That's {when}.)"),
          r.choice((ack(c), f'Okay, {yours} {event} is{marked(when)}.')))
    c.extra.append(f'{yours} {event} is {when}')
    return [(one_of(r, f'When (is {the} {event}|does {the} {event} (start|begin)|will {the} {event} be)?|'
                       f'(What time|What day) is {the} {event}?|{cap(the)} {event}, when is it?'),
             f'{cap(yours)} {event} is{marked(when)}.')]


def thing(c):
    """Something that is somewhere, has a property, or does something: no fact about the user."""
    r = c.r
    adjective = r.choice(('spare', 'old', 'new', 'red', 'small', 'big', 'blue', 'broken', 'best'))
    what = f'{adjective} {r.choice(NOUNS + OBJECTS[:2])}'
    if r.random() < .6:
        where = place(r)
        verb = r.choice(('is', 'hangs', 'stands', 'lies', 'is kept', 'is hidden', 'belongs'))
        c.add(f'The {what} {verb} {where}.', r.choice((ack(c), f'Okay, the {what} is{marked(where)}.')))
        c.extra.append(f'the {what} is {where}')
        return [(one_of(r, f'Where is the {what}( kept| now|)?|Where can I find the {what}?|Where do I '
                           f'find the {what}?'), f'The {what} is{marked(where)}.')]
    name = proper(r)
    form = r.randrange(3)
    if form == 0:
        c.add(f'The {what} belongs to {name}.', ack(c))
        return [(expand(r, f'(Who owns|Whose is|Who has|Who does) the {what}?'),
                 f'The {what} belongs to{marked(name)}.')]
    if form == 1:
        price = str(r.randint(2, 900))
        c.add(expand(r, f'The {what} (costs|cost me|is worth) {price} (euros|dollars|pounds).'), ack(c))
        return [(one_of(r, f'(How much does|What does) the {what} cost?|What is the price of the '
                           f'{what}?'), f'The {what} costs{marked(price)}.')]
    month = r.choice(MONTHS)
    c.add(expand(r, f'(I (bought|got|found|made)|We bought) the {what} in {month}.'), ack(c))
    return [(expand(r, f'When did (I|we) (buy|get|find|make) the {what}?'),
             f'You got the {what} in{marked(month)}.')]


DEEDS = """sold/sell bought/buy found/find lost/lose broke/break painted/paint borrowed/borrow
repaired/repair made/make stole/steal wants/want needs/need lent_me/lend_me gave_me/give_me took/take
sent_me/send_me showed_me/show_me wrote/write washed/wash hid/hide ordered/order owns/own
has/have""".replace('_', ' ').replace(' me', '_me').split()


def deed(c):
    """Somebody did something with a thing: who, and what?"""
    r = c.r
    done, do = (w.replace('_', ' ') for w in r.choice(DEEDS).split('/'))
    mine = r.random() < .3 and 'me' not in done and not done.endswith('s')
    relative = r.random() < .4
    who = 'I' if mine else f'my {r.choice(RELATIVES)}' if relative else proper(r)
    you = 'you' if mine else who.replace('my ', 'your ')
    what = r.choice(('a ', 'the ', 'a ' + r.choice(COLOURS) + ' ', 'the ' + r.choice(ADJECTIVES) + ' ')) \
        + (r.choice(NOUNS) if r.random() < .85 else pseudo(r))
    what = phrases.article(what)
    when = r.choice(('', '', ' yesterday', ' today', ' last week', ' on ' + r.choice(DAYS)))
    when = '' if done.endswith('s') else when
    c.add(cap(f'{who} {done} {what}{when}.'), ack(c))
    helper = 'does' if done.endswith('s') else 'did'
    yours = done.replace(' me', ' you')
    c.extra.append(f'{you} {yours} {what}')
    out = [(f'What {helper} {who} {do}?', f'{cap(you)} {yours}{marked(what)}.'),
           (f'Who {done} {what}?', f'{marked(cap(you))} {yours} {what}.')]
    if when and helper == 'did':
        out.append((f'When did {who} {do} {what}?', f'{cap(you)} {yours} {what}{marked(when[1:])}.'))
    r.shuffle(out)
    return out[:2]


def amount(c):
    """How many, how long, what colour: something about the user's things."""
    r = c.r
    relative = r.random() < .4
    who = f'my {r.choice(RELATIVES)}' if relative else 'I'
    you = who.replace('my ', 'your ') if relative else 'you'
    have, do = ('has', 'does') if relative else ('have', 'do')
    if r.random() < .5:
        n = r.choice(NUMBERS[2:]) if r.random() < .7 else str(r.randint(2, 500))
        things = r.choice(COLLECTIONS + [a[0] for a in ANIMALS.values()] + ['chairs', 'children', 'cars'])
        c.add(cap(expand(r, f'({who} {have}|{who} {have} got|there are|at home {who} {have}) {n} {things}.')
                  .replace('there are', f'{who} {have}')), ack(c))
        c.extra.append(f'{you} {have} {n} {things}')
        return [(expand(r, f'How many {things} {do} {who} (have|own)?'),
                 f'{cap(you)} {have}{marked(n)} {things}.')]
    thing = r.choice(NOUNS + ['car', 'bike', 'hair', 'dress', 'sofa', 'front door'])
    whose = f"{who}'s" if relative else 'my'
    yours = f"{you}'s" if relative else 'your'
    colour = known(r, COLOURS, .9)
    c.add(cap(expand(r, f'({whose} {thing} is {colour}|{who} {have} a {colour} {thing}|'
                        f'{whose} {thing} is painted {colour}).')), ack(c))
    c.extra.append(f'{yours} {thing} is {colour}')
    return [(one_of(r, f'What colour is {whose} {thing}?|(What|Which) colour does {whose} {thing} '
                       'have?'), f'{cap(yours)} {thing} is{marked(colour)}.')]


# ------------------------------------------------------------------------------ talk about the talk
def said(c):
    """Questions about the last turns."""
    r = c.r
    if len(c.turns) < 2:
        return []
    (_, user), (_, assistant) = c.turns[-2:]
    assistant = assistant.replace(MARK, '')
    if r.random() < .5 and len(assistant) < 70:
        c.add(expand(r, '(What did you (just |)(say|answer|tell me)|What was that|What was your answer|'
                        'Say that again|Repeat that|Can you repeat that|Once more|I did not hear that)'
                        '( please|)(?|)'), f'I said:{marked(assistant.strip())}')
    elif len(user) < 70:
        c.add(expand(r, '(What did I (just |)(say|ask|write|tell you)|What was my (question|last message'
                        '|last question)|What did I just (ask|say))(?|)'),
              f'You said:{marked(user)}')
    return []


def summary(c):
    """All that is known, in the order of telling; up to four facts, or that there is nothing."""
    r = c.r
    parts = [f'{uncap_answer(say(k))} {v}' for k, v in c.facts.items()
             if k[0] not in ('the', 'key')] + c.extra
    question = expand(r, r.choice(GENERIC['summary']))
    if not parts:
        c.add(question, "You haven't told me anything yet. Tell me something!")
    elif len(parts) <= 4:
        c.add(question, f'You told me:{marked("; ".join(parts))}.')
    return []


def topics(c):
    r = c.r
    told = [f"your {k[1].split(':')[-1]}" if k[0] == 'my' else f'{owner_of(k)} {k[1]}'
            for k in c.facts if k[0] not in ('the', 'key')]
    parts = (told + [t for t in c.topics if t])[:4]
    question = expand(r, r.choice(GENERIC['topics']))
    if not parts:
        c.add(question, 'We have only just begun. Tell me something!')
    else:
        text = parts[0] if len(parts) == 1 else ', '.join(parts[:-1]) + ' and ' + parts[-1]
        c.add(question, f'We talked about{marked(text)}.')
    return []


def owner_of(key):
    return phrases.owner_words(key[0])['y']
