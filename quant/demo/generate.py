"""Synthetic conversations for the demo model.

A conversation is a list of (role, text) turns, role one of 'user', 'assistant', 'system', 'query'.
Inside an assistant's text MARK...MARK encloses a recalled value, so that the trainer can weigh it.
Everything is drawn from one random.Random: the same seed gives the same conversations.

The first part of this file is tables: words, value makers, and every sentence template. The second
part composes them. All text is our own; no corpus is read.
"""
import random

MARK = '\x01'


def marked(value):
    """A value as the assistant says it; the space before it belongs to the value's first token."""
    return f'{MARK} {value}{MARK}'


def plain(text):
    """An assistant's text without the marks."""
    return text.replace(MARK, '').strip()


def cap(s):
    return s[0].upper() + s[1:]


def uncap(s):
    """For the middle of a sentence; names and "I" keep their capital letter."""
    return s[0].lower() + s[1:] if s.startswith(('My ', 'People ', 'Call ')) else s


def a_or_an(word):
    return ('an ' if word[0] in 'aeiou' else 'a ') + word


# ---------------------------------------------------------------------------------------- words
NAMES = """Anna Ben Clara David Emma Felix Greta Hugo Ines Jonas Karin Leo Maria Nils Olga Paul Rosa
Simon Tina Viktor Alice Bob Carlos Diana Elif Farid Gina Hana Ivan Julia Kenji Lena Marco Marta
Nadia Omar Priya Quentin Rita Sam Tara Uma Vera Walter Xena Yara Zoe Adam Bella Chris Dora Erik
Fatima George Helen Igor Jane Kevin Laura Mike Nora Oscar Petra Rahul Sofia Tom Ursula Vincent Wendy
Yusuf Zara Aaron Beth Cedric Daisy Ethan Freya Gavin Holly Isaac Jasmine Kyle Lily Mason Nina Owen
Penny Ravi Stella Theo Violet Will Amira Bruno Celine Dmitri Esther Frank Gloria Henry Irene Jack
Kate Liam Mona Noah Olivia Peter Ruth Steve Tessa Max Mia Luca Lucy Alex Amelie Arthur Chloe Daniel
Elena Fiona Grace Harry Isabel James Kai Louis Megan Nathan Oliver Rachel Sarah Thomas Victoria
William Zack Maya Ali Chen Wei Yuki Sakura Mateo Diego Lucia Pablo Sven Astrid Bjorn Ingrid Lars
Freja Tomas""".split()
PET_NAMES = """Biscuit Rex Luna Bella Buddy Coco Daisy Felix Ginger Honey Jasper Kiki Lucky Milo
Misty Nala Oreo Patch Pepper Poppy Rocky Rusty Shadow Simba Smokey Snowy Socks Spot Tiger Toby
Whiskers Bandit Bruno Cleo Dusty Fluffy Goldie Max Molly Muffin""".split()
CITIES = """Paris London Berlin Madrid Rome Vienna Prague Lisbon Dublin Oslo Helsinki Warsaw Athens
Cairo Tokyo Kyoto Seoul Boston Chicago Denver Seattle Austin Dallas Miami Toronto Montreal Lima
Bogota Quito Sydney Melbourne Auckland Delhi Mumbai Hamburg Munich Cologne Leipzig Lyon Nice
Bordeaux Milan Naples Turin Porto Seville Valencia Bristol Leeds York Glasgow Cork Bergen Malmo
Zurich Geneva Basel Graz Salzburg Krakow Riga Vilnius Tallinn Budapest Sofia Ankara Izmir Beirut
Nairobi Lagos Accra Tunis""".split()
COLOURS = """red blue green yellow purple orange pink brown black white grey turquoise teal violet
gold silver crimson navy olive beige indigo magenta cyan maroon lavender""".split()
FOODS = """pizza pasta sushi curry soup salad lasagna tacos ramen pancakes dumplings risotto burgers
falafel paella chili waffles noodles stew kebab""".split()
FRUITS = """apples bananas cherries grapes mangoes oranges peaches pears plums strawberries melons
kiwis lemons figs apricots""".split()
DRINKS = 'coffee tea milk water juice lemonade cocoa cider soda beer wine'.split()
SPORTS = """football tennis hockey swimming running cycling chess rowing climbing skiing boxing golf
basketball volleyball yoga surfing""".split()
JOBS = """nurse teacher baker pilot farmer doctor lawyer writer painter plumber engineer chef
dentist driver singer librarian carpenter gardener scientist programmer""".split()
SEASONS = 'spring summer autumn winter'.split()
DAYS = 'Monday Tuesday Wednesday Thursday Friday Saturday Sunday'.split()
MONTHS = """January February March April May June July August September October November
December""".split()
NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen twenty""".split()
WEATHER = 'sunny rainy cloudy windy snowy foggy stormy cold warm hot'.split()
ADJECTIVES = """little old big quiet bright small green tall happy broken wooden golden cold warm
strange heavy lazy clever brave lonely hungry rusty shiny gentle famous hidden narrow wide noisy
dusty sleepy curious""".split()
NOUNS = """house river garden bridge tower market forest mountain boat train window lamp table
letter map box clock coat bottle basket ladder mirror candle engine wagon bucket hammer pillow
blanket kettle drum flute violin ticket bicycle umbrella lantern rope anchor feather stone shell
coin key book drawer shelf bag jar cup plate chair door fence field valley island harbor village
castle school kitchen office station museum library shop cellar attic tunnel""".split()
PEOPLE = """baker king farmer sailor teacher child girl boy doctor merchant painter knight miller
fisherman shepherd queen clerk guard pilot gardener captain neighbor student""".split()
VERBS = """walked ran looked waited sat stood slept danced sang laughed worked wandered travelled
rested played cried smiled""".split()
VERBS_OBJECT = """found carried opened painted repaired lost bought sold cleaned counted dropped
watched followed moved built broke borrowed washed lifted""".split()
WHERE = ['near the', 'behind the', 'under the', 'in front of the', 'next to the', 'inside the',
         'beyond the', 'by the']
WHEN = ['in the morning', 'in the evening', 'at noon', 'at night', 'every day', 'last week',
        'on Sunday', 'in winter', 'in summer', 'after lunch', 'before sunrise',
        'for a while', 'once again']
CONTAINERS = """drawer box bag jar cupboard shelf basket pocket table bed sofa desk car backpack
suitcase cabinet fridge bathroom kitchen garage hallway closet bookcase chair window""".split()
OBJECTS = """keys wallet passport umbrella glasses charger notebook phone ring camera scarf hat
watch headphones ticket gloves laptop bottle scissors pills""".split()
PLURAL_OBJECTS = set('keys glasses headphones gloves scissors pills'.split())
RELATIVES = """sister brother mother father friend boss neighbour cousin uncle aunt wife husband son
daughter colleague roommate teacher grandmother grandfather""".split()
PETS = 'dog cat hamster parrot rabbit horse fish turtle goat snake'.split()
ONSETS = list('bcdfghjklmnprstvwz') + ['ch', 'sh', 'th', 'br', 'tr', 'st', 'kr', 'pl', 'gr']
VOWELS = list('aeiou') + ['ai', 'ee', 'ou']

# animal: plural, eats, lives, sound, class, legs
ANIMALS = {row[0]: row[1:] for row in (line.split('; ') for line in """
cow; cows; grass; on a farm; moo; mammal; four
horse; horses; hay; in a stable; neigh; mammal; four
cat; cats; fish and mice; in a house; meow; mammal; four
dog; dogs; meat; in a house; woof; mammal; four
fox; foxes; mice and berries; in the forest; yip; mammal; four
wolf; wolves; meat; in the forest; howl; mammal; four
bear; bears; honey and fish; in the mountains; growl; mammal; four
lion; lions; meat; in the savanna; roar; mammal; four
tiger; tigers; meat; in the jungle; roar; mammal; four
duck; ducks; seeds; on a pond; quack; bird; two
owl; owls; mice; in the woods; hoot; bird; two
eagle; eagles; fish; in the mountains; screech; bird; two
penguin; penguins; fish; in the Antarctic; honk; bird; two
frog; frogs; insects; near a pond; croak; amphibian; four
snake; snakes; mice; in the desert; hiss; reptile; zero
turtle; turtles; plants; in the sea; hiss; reptile; four
shark; sharks; fish; in the ocean; nothing; fish; zero
bee; bees; nectar; in a hive; buzz; insect; six
ant; ants; crumbs; in an ant hill; nothing; insect; six
sheep; sheep; grass; on a farm; baa; mammal; four
pig; pigs; vegetables; on a farm; oink; mammal; four
goat; goats; leaves; in the hills; bleat; mammal; four
mouse; mice; cheese; in a hole; squeak; mammal; four
rabbit; rabbits; carrots; in a burrow; squeak; mammal; four
elephant; elephants; leaves; in the savanna; trumpet; mammal; four
monkey; monkeys; bananas; in the jungle; chatter; mammal; two
spider; spiders; flies; in a web; nothing; arachnid; eight
parrot; parrots; nuts; in the jungle; squawk; bird; two
whale; whales; krill; in the ocean; song; mammal; zero
hamster; hamsters; seeds; in a cage; squeak; mammal; four
hen; hens; corn; on a farm; cluck; bird; two
""".strip().splitlines())}
CLASS_PLURAL = {'mammal': 'mammals', 'bird': 'birds', 'amphibian': 'amphibians',
                'reptile': 'reptiles', 'fish': 'fish', 'insect': 'insects', 'arachnid': 'arachnids'}
CAPITALS = dict(pair.split('/') for pair in """France/Paris England/London Germany/Berlin
Spain/Madrid Italy/Rome Austria/Vienna Portugal/Lisbon Ireland/Dublin Norway/Oslo Finland/Helsinki
Poland/Warsaw Greece/Athens Egypt/Cairo Japan/Tokyo Korea/Seoul Peru/Lima Cuba/Havana Canada/Ottawa
Sweden/Stockholm Denmark/Copenhagen Russia/Moscow China/Beijing India/Delhi Turkey/Ankara
Hungary/Budapest Kenya/Nairobi Chile/Santiago Belgium/Brussels Switzerland/Bern
Iceland/Reykjavik""".split())
OPPOSITES = [pair.split('/') for pair in """hot/cold big/small fast/slow happy/sad old/new high/low
light/dark wet/dry hard/soft full/empty early/late open/closed rich/poor strong/weak loud/quiet
near/far clean/dirty thick/thin good/bad long/short""".split()]
THING_COLOURS = dict(pair.split('/') for pair in """The_sky/blue Grass/green Snow/white Coal/black
The_sun/yellow Blood/red Chocolate/brown A_lemon/yellow A_tomato/red A_carrot/orange A_banana/yellow
A_cloud/white""".split())


# ---------------------------------------------------------------------------------------- values
def pseudo(r):
    """An invented word: it cannot be guessed, so it must be remembered."""
    word = ''.join(r.choice(ONSETS) + r.choice(VOWELS) for _ in range(r.choice((2, 2, 2, 3))))
    return word + r.choice('nrlstkmx') if r.random() < .5 else word


def digits(r, *lengths):
    return ''.join(r.choice('0123456789') for _ in range(r.choice(lengths)))


def runs(r, n):
    """Digits half of which repeat their neighbour: harder to copy (InfiniteBench's R.Number)."""
    text = digits(r, n // 2)
    while len(text) < n:
        i = r.randrange(len(text))
        text = text[:i] + text[i] + text[i:]
    return text


def sequence(r):
    return runs(r, 10) if r.random() < .5 else digits(r, 10)


def letters(r, n):
    return ''.join(r.choice('ABCDEFGHIJKLMNOPQRSTUVWXYZ') for _ in range(n))


def proper(r):
    return r.choice(NAMES) if r.random() < .5 else pseudo(r).capitalize()


def pet_name(r):
    return r.choice(PET_NAMES) if r.random() < .4 else proper(r)


def known(r, words, p=.75):
    """Mostly from the list, sometimes invented."""
    return r.choice(words) if r.random() < p else pseudo(r)


def place(r):
    adjective = r.choice(COLOURS + ADJECTIVES[:20]) + ' ' if r.random() < .6 else ''
    return r.choice(('in', 'on', 'under', 'behind', 'next to', 'inside')) + ' the ' + adjective \
        + r.choice(CONTAINERS)


def clock(r):
    minute = r.choice(('00', '15', '30', '45', '10', '20', '40', '50'))
    return f'{r.randint(1, 12)}:{minute} ' + r.choice(('am', 'pm'))


def title(r):
    return f'The {r.choice(ADJECTIVES).capitalize()} {r.choice(NOUNS).capitalize()}'


VALUES = {  # subjects of facts, and how their values are made
    'locker code': lambda r: digits(r, 5), 'pin code': lambda r: digits(r, 4),
    'door code': lambda r: digits(r, 4, 5, 6), 'alarm code': lambda r: digits(r, 4, 6),
    'safe code': lambda r: digits(r, 5, 6), 'bike lock code': lambda r: digits(r, 4),
    'gate code': lambda r: digits(r, 4), 'phone number': lambda r: digits(r, 6, 7, 8),
    'booking number': lambda r: digits(r, 6), 'room number': lambda r: digits(r, 3),
    'ticket number': lambda r: digits(r, 6), 'account number': lambda r: digits(r, 8),
    'order number': lambda r: digits(r, 6), 'lucky number': lambda r: digits(r, 1, 2, 2, 3),
    'zip code': lambda r: digits(r, 5), 'house number': lambda r: str(r.randint(1, 400)),
    'bus number': lambda r: str(r.randint(1, 300)), 'age': lambda r: str(r.randint(5, 99)),
    'shoe size': lambda r: str(r.randint(30, 48)),
    'flight number': lambda r: letters(r, 2) + digits(r, 3, 4),
    'seat number': lambda r: str(r.randint(1, 60)) + letters(r, 1),
    'license plate': lambda r: letters(r, 3) + digits(r, 4),
    'parking spot': lambda r: letters(r, 1) + digits(r, 2),
    'wifi password': lambda r: pseudo(r) + digits(r, 2, 3, 4),
    'password': lambda r: pseudo(r) + digits(r, 0, 2, 4),
    'username': lambda r: pseudo(r) + digits(r, 0, 2),
    'secret word': lambda r: known(r, NOUNS, .3), 'code word': lambda r: known(r, NOUNS, .3),
    'favourite colour': lambda r: known(r, COLOURS, .9),
    'favorite color': lambda r: known(r, COLOURS, .9),
    'favourite food': lambda r: known(r, FOODS), 'favorite food': lambda r: known(r, FOODS),
    'favourite fruit': lambda r: known(r, FRUITS, .9),
    'favourite drink': lambda r: known(r, DRINKS, .9),
    'favourite sport': lambda r: known(r, SPORTS, .9),
    'favourite animal': lambda r: known(r, list(ANIMALS), .9),
    'favourite season': lambda r: r.choice(SEASONS), 'favourite day': lambda r: r.choice(DAYS),
    'favourite month': lambda r: r.choice(MONTHS), 'favourite book': title,
    'favourite movie': title,
    'favourite band': lambda r: pseudo(r).capitalize(),
    'favourite song': lambda r: title(r)[4:],
    'name': proper, 'last name': proper, 'middle name': proper, 'nickname': proper,
    'best friend': proper, 'teacher': proper, 'boss': proper,
    'doctor': lambda r: 'Dr. ' + proper(r),
    'hometown': lambda r: known(r, CITIES, .6).capitalize(),
    'city': lambda r: known(r, CITIES, .6).capitalize(),
    'street': lambda r: proper(r) + r.choice((' Street', ' Road', ' Lane', ' Avenue')),
    'school': lambda r: proper(r) + ' School', 'company': lambda r: pseudo(r).capitalize(),
    'team': lambda r: f'the {r.choice(COLOURS).capitalize()} '
                      + ANIMALS[r.choice(list(ANIMALS))][0].capitalize(),
    'job': lambda r: r.choice(JOBS), 'birthday': lambda r: f'{r.choice(MONTHS)} {r.randint(1, 31)}',
    'wedding day': lambda r: f'{r.choice(MONTHS)} {r.randint(1, 31)}',
    'exam date': lambda r: f'{r.choice(MONTHS)} {r.randint(1, 31)}',
    'meeting time': clock, 'train time': clock, 'alarm time': clock,
    'dentist appointment': lambda r: f'{r.choice(DAYS)} at {clock(r)}',
    **{f"{pet}'s name": pet_name for pet in PETS},
}
COMMON = ['name', 'locker code', 'city', 'favourite colour', "dog's name", "cat's name", 'birthday',
          'wifi password', 'pin code', 'phone number', 'favourite food', 'job', 'best friend',
          'door code', 'age']
LISTS = {'shopping list': FRUITS + FOODS + DRINKS, 'packing list': OBJECTS, 'guest list': NAMES,
         'reading list': NAMES, 'to-do list': SPORTS}

# ------------------------------------------------------------------------------------- templates
# {S}/{s} the owner as the user says it ("My", "my sister's"), {Y}/{y} as the assistant says it
# ("Your", "your sister's"), {W} the owner as a person ("My sister"), {n} the noun, {v} the value,
# {p} a pet, {o} an object, {be} is/are, {them} it/they.
TELL = '{S} {n} is {v}.'
TELL_MINE = {  # other wordings, by noun; "pet" is any "...'s name"
    'name': ("I'm {v}.", "I'm {v}.", 'I am {v}.', 'Call me {v}.', 'People call me {v}.'),
    'city': ('I live in {v}.', 'I live in {v}.', 'I live in {v} now.'),
    'job': ('I work as a {v}.', 'I am a {v}.'), 'age': ('I am {v} years old.',),
    'birthday': ('I was born on {v}.',),
    'pet': ('My {p} is called {v}.', 'My {p} is named {v}.', 'I have a {p} named {v}.',
            'I have a {p} called {v}.', 'I got a {p} and named it {v}.'),
    'favourite': ('{S} {n} is {v}, of course.', '{S} absolute {n} is {v}.'),
}
TELL_OTHER = {
    'city': ('{W} lives in {v}.', '{W} lives in {v} now.'),
    'job': ('{W} works as a {v}.', '{W} is a {v}.'), 'age': ('{W} is {v} years old.',),
    'birthday': ('{W} was born on {v}.',),
    'pet': ('{S} {p} is called {v}.', '{S} {p} is named {v}.', '{W} has a {p} called {v}.'),
}
TELL_PLACE = ('I left my {o} {v}.', 'I left my {o} {v}.', 'I put my {o} {v}.', 'My {o} {be} {v}.')
TELL_LIST = ('My {n} is: {v}.', 'Here is my {n}: {v}.', 'Remember my {n}: {v}.')
UPDATE = ('Actually, {s} {n} is now {v}.', 'Actually, {s} {n} is {v}.', '{S} {n} is now {v}.',
          'I changed {s} {n} to {v}.', '{S} {n} has changed. It is {v} now.',
          'Correction: {s} {n} is {v}.', 'Update: {s} {n} is {v} now.',
          'Sorry, I made a mistake. {S} {n} is {v}.', '{S} new {n} is {v}.')
UPDATE_PLACE = ('I moved my {o}. {Them} {be} {v} now.', 'Actually, my {o} {be} {v} now.',
                'Actually, I left my {o} {v}.')
BEFORE_TELLING = ('By the way, ', 'Please remember that ', 'Just so you know, ', 'Oh, and ',
                  'Remember that ', 'Note that ', 'For the record, ', 'One more thing: ',
                  'Keep in mind that ', 'I want you to know that ', 'Can you remember this? ',
                  'Remember this: ')
GREETINGS = ('Hi, ', 'Hello, ', 'Hi! ', 'Hello! ', 'Hey, ')
ACK = ('Got it, {y} {n} is{m}.', 'Okay, I will remember that {y} {n} is{m}.',
       'Thanks, {y} {n} is{m}.')
ACK_NAME = ('Nice to meet you,{m}!', 'Hello{m}, nice to meet you!', 'Hi{m}! How can I help you?')
ACK_PLACE = ('Okay, your {o} {be}{m}.', 'Got it, you left your {o}{m}.')
ACK_UPDATE = ('Okay, {y} {n} is now{m}.', 'Got it, {y} {n} is{m} now.')
ACK_SHORT = ('Okay, I will remember that.', 'Got it, thanks for telling me.', 'Noted.',
             'Thanks, I will keep that in mind.')
ASK = (('What is {s} {n}?', '{Y} {n} is'), ('What is {s} {n}?', '{Y} {n} is'),
       ("What's {s} {n}?", '{Y} {n} is'), ('Do you remember {s} {n}?', 'Yes, {y} {n} is'),
       ('Can you tell me {s} {n}?', '{Y} {n} is'), ('I forgot {s} {n}. What is it?', '{Y} {n} is'),
       ('Tell me {s} {n}.', '{Y} {n} is'), ('What was {s} {n} again?', '{Y} {n} is'),
       ('Remind me of {s} {n}, please.', '{Y} {n} is'))
ASK_MINE = {
    'name': (('Who am I?', 'You are'), ('Who am I?', 'You are'),
             ('What am I called?', 'You are called'), ('Do you know my name?', 'Yes, your name is'),
             ('Do you know who I am?', 'Yes, you are')),
    'city': (('Where do I live?', 'You live in'), ('Where do I live?', 'You live in'),
             ('Which city do I live in?', 'You live in')),
    'job': (('What do I do for a living?', 'You work as a'), ('What is my job?', 'You work as a')),
    'age': (('How old am I?', 'Your age is'),),
    'birthday': (('When is my birthday?', 'Your birthday is'),
                 ('When was I born?', 'You were born on')),
    'best friend': (('Who is my best friend?', 'Your best friend is'),),
    'boss': (('Who is my boss?', 'Your boss is'),),
    'doctor': (('Who is my doctor?', 'Your doctor is'),),
    'teacher': (('Who is my teacher?', 'Your teacher is'),),
    'pet': (('What is my {p} called?', 'Your {n} is'), ("What is my {p}'s name?", 'Your {n} is')),
}
ASK_OTHER = {
    'city': (('Where does {w} live?', '{YW} lives in'),),
    'job': (('What does {w} do?', '{YW} works as a'),),
    'age': (('How old is {w}?', '{YW} is'),),
    'pet': (('What is {s} {p} called?', '{Y} {n} is'),),
}
ASK_PLACE = (('Where did I leave my {o}?', 'You left your {o}'),
             ('Where {be} my {o}?', 'Your {o} {be}'), ('Where {be} my {o}?', 'Your {o} {be}'),
             ('Do you know where my {o} {be}?', 'Yes, your {o} {be}'),
             ("I can't find my {o}. Where {be} {them}?", 'Your {o} {be}'))
ASK_LIST = (('What is on my {n}?', 'Your {n} is:'), ('Read me my {n}.', 'Your {n} is:'),
            ('Do you remember my {n}?', 'Yes, your {n} is:'))
# A fact that was never told: the answer starts like any other and branches at the place of the
# value, because there the model looks the value up.
UNKNOWN = {'place': "somewhere, but you haven't told me where",
           'in': "a place you haven't told me yet", 'are': "someone who hasn't told me a name yet",
           '': "something you haven't told me yet"}

SMALL_TALK = (  # (possible messages), (possible answers)
    # {w} weather, {f} food, {d} drink, {t} sport, {x} noun
    (('Hello!', 'Hello!', 'Hi!', 'Hi there!', 'Hey!', 'Hello there!',
      'Hello, how can you help me?'),
     ('Hello! How can I help you today?',)),
    (('Good morning!',), ('Good morning! How are you?',)),
    (('Good evening!',), ('Good evening! How was your day?',)),
    (('Good night!',), ('Good night! Sleep well!',)),
    (('How are you?', 'How are you today?', 'How do you do?'),
     ('I am fine, thank you. How are you?',)),
    (('I am fine, thanks.', "I'm good, thanks.", 'Fine, thank you.', 'Very well, thank you.'),
     ('I am glad to hear that!',)),
    (('Thank you!', 'Thanks a lot.', 'Thanks!', 'Thank you very much.'), ('You are welcome!',)),
    (('Goodbye!', 'Bye!', 'See you later!', 'See you!'), ('Goodbye! Have a nice day!',)),
    (('Who are you?', 'What are you?'), ('I am a small chat assistant with a long memory.',)),
    (('What can you do?', 'Can you help me?', 'Help!', 'What can I ask you?'),
     ('I can chat, tell stories, and remember what you tell me.',)),
    (('What is your name?', 'Do you have a name?'), ('My name is Retain.',)),
    (('Are you a robot?', 'Are you human?', 'Are you a person?'),
     ('I am a small language model.',)),
    (('Where do you live?', 'Where are you?'), ('I live in this computer.',)),
    (('How old are you?', 'When were you born?'), ('I am very young, I am only a small model.',)),
    (('Do you remember me?', 'Will you forget me?'),
     ('I remember what you tell me in this chat.',)),
    (('It is {w} today.', 'The weather is {w}.', 'It is {w} outside.'),
     ('I see, {w} weather. I hope you have a good day!',)),
    (('How is the weather?', 'What is the weather like?', 'Will it rain?'),
     ("I can't see the weather from here.",)),
    (('What time is it?', 'What day is it today?', 'What is the date?'),
     ("I don't have a clock, sorry.",)),
    (('I am tired.', 'I had a long day.', 'I am sleepy.'), ('You should get some rest.',)),
    (('I am happy today.', 'I am so happy!', 'Today is a good day.'), ('That is wonderful!',)),
    (('I am bored.',), ('Shall I tell you a story?',)),
    (('I am hungry.', 'I want to eat.'), ('You should eat something tasty.',)),
    (('I am thirsty.',), ('You should drink some water.',)),
    (('I feel sad.', 'I am sad.', 'I had a bad day.'),
     ('I am sorry to hear that. I am here for you.',)),
    (('I am sick.', 'I have a headache.', "I don't feel well."), ('I hope you feel better soon.',)),
    (('Tell me a joke.', 'Do you know a joke?'),
     ('Why did the chicken cross the road? To get to the other side!',)),
    (('Tell me another joke.', 'Another joke, please.'),
     ('What do you call a sleeping bull? A bulldozer!',)),
    (('That is funny.', 'Haha!', 'Very funny.'), ('I am glad you like it.',)),
    (('What should I eat today?', 'What is for dinner?'), ('How about some {f}?',)),
    (('What should I drink?',), ('How about some {d}?',)),
    (('Can you recommend a sport?', 'What sport should I do?'), ('You could try {t}.',)),
    (('I am going to play {t}.', 'I will play {t} now.'), ('Have fun!',)),
    (('Okay.', 'Ok.', 'I see.', 'Alright.'), ('Is there anything else I can help with?',)),
    (('Nice.', 'Great!', 'Cool!', 'Well done!', 'Good job!'), ('I am glad you like it.',)),
    (('Yes.', 'Yes, please.', 'Sure.'), ('Great! What would you like to do?',)),
    (('No.', 'No, thanks.', 'No, thank you.'), ('Okay, let me know if you need anything.',)),
    (('Do you like music?', 'Do you like {t}?', 'Do you like {f}?'),
     ('I can only read and write, but it sounds nice.',)),
    (('I went for a walk.', 'I went to the park.'), ('That sounds nice. Where did you go?',)),
    (('I went to the {x}.', 'I am going to the {x}.'), ('That sounds nice. Have fun at the {x}!',)),
    (('Please wait a moment.', 'One moment.', 'Wait.'), ('Sure, take your time.',)),
    (('I am back.', 'Here I am again.'), ('Welcome back!',)),
    (('Sorry.', 'I am sorry.'), ('No problem at all.',)),
    (('I love you.', 'I like you.', 'You are nice.'), ('Thank you, that is very kind.',)),
    (('You are wrong.', 'That is wrong.', 'That is not right.'),
     ('I am sorry, I make mistakes sometimes.',)),
    (('How big is your memory?', 'How does your memory work?'),
     ('My memory is small, so I keep what matters.',)),
    (('Let us play a game.', 'Do you want to play?'),
     ('You tell me a fact, and I will remember it.',)),
    (('I have a question.', 'Can I ask you something?', 'May I ask a question?'),
     ('Of course, go ahead.',)),
)
CHATTER = ('I see.', 'That sounds interesting.', 'Tell me more.')
BEYOND = (  # questions that a model of this size can't answer, said honestly
    ('What is a {x}?', 'How do I build a {x}?', 'Who invented the {x}?', 'Why is the {x} {j}?',
     'How much is a {x}?', 'What is the best {x}?', 'Can you buy a {x}?',
     'Write a poem about a {x}.', 'Why did the {p} {b} the {x}?',
     'What do you think about the {x}?', 'Explain the {x} to me.',
     'Who is the best {p}?', 'How does a {x} work?', 'Where can I find a {x}?',
     'Translate {j} into French.', 'What is the meaning of life?'),
    ("I am only a small model, I don't know that.",))
STORY_ASK = ('Tell me a story about {a}.', 'Can you tell me a story about {a}?',
             'I want to hear a story about {a}.', 'Please tell me a story about {a}.')
STORY = ('Once upon a time there was a {j1} {a} named {n}.', '{n} lived near a {j2} {x}.',
         'One day {n} found a {j3} {y}.', '{n} was very {feel}.', '{n} {took} the {y} home.',
         'In the end, {n} and the {y} were {end}.')
ANIMAL_CHAT = (
    # {A} an owl, {P} owls, {e} eats, {l} lives, {s} sound, {c} class, {cs} classes, {g} legs
    ('What does {a} eat?', '{A} eats {e}.'), ('What do {p} eat?', '{P} eat {e}.'),
    ('Where does {a} live?', '{A} lives {l}.'), ('Where do {p} live?', '{P} live {l}.'),
    ('What kind of animal is {a}?', '{A} is a {c}.'), ('What are {p}?', '{P} are {cs}.'),
    ('How many legs does {a} have?', '{A} has {g} legs.'),
    ('How many legs do {p} have?', '{P} have {g} legs.'),
    ('What sound does {a} make?', '{A} says {s}.'), ('What sound do {p} make?', '{P} say {s}.'),
    ('Tell me about {a}.', '{A} is a {c}. It lives {l} and eats {e}.'),
    ('Tell me about {p}.', '{P} are {cs}. They live {l} and eat {e}.'),
    ('Tell me about {p}.', '{P} are {cs}. They live {l} and eat {e}.'),
    ('Tell me something about {p}.', '{P} are {cs}. They live {l} and eat {e}.'),
)
READ_THIS = ('Please read this: ', 'Read this text: ', 'Here is a document: ', 'Look at this: ',
             'Text: ', '')
HAVE_READ = ('Okay, I have read it.', 'Thanks, I have read the text.', 'Done reading.')
GRASS = 'The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.'
IMPORTANT = 'There is important information in this text. Find it and remember it. '
SECRETS = ('pass key', 'secret number', 'magic number', 'sequence of digits', 'code word',
           'secret code')
REPEAT = ('Repeat after me: ', 'Say: ', 'Please repeat: ', 'Repeat this: ')
SYSTEM = ('You are a helpful assistant.', 'You are a helpful assistant.',
          'You are a friendly assistant.', 'You are a small chat assistant with a long memory.',
          'Answer briefly.', 'Be kind and honest.',
          'You are a helpful assistant. Answer in short sentences.',
          'You remember what the user tells you.')


def owner_words(owner):
    """Fill-ins of the templates above for an owner such as "my", "my sister's" or "Anna's"."""
    yours = 'your' + owner[2:] if owner.startswith('my') else owner
    who = 'I' if owner == 'my' else owner[:-2]
    return {'s': owner, 'S': cap(owner), 'y': yours, 'Y': cap(yours), 'w': who, 'W': cap(who),
            'YW': cap(yours[:-2])}


def noun_words(noun):
    if noun.startswith('place:'):
        thing = noun[6:]
        many = thing in PLURAL_OBJECTS
        return {'o': thing, 'be': 'are' if many else 'is', 'them': 'they' if many else 'it',
                'Them': 'They' if many else 'It'}
    if noun.startswith('list:'):
        return {'n': noun[5:]}
    return {'n': noun, 'p': noun[:-7]} if noun.endswith("'s name") else {'n': noun}


def family(noun):
    """The row of the TELL_ and ASK_ tables that a noun uses."""
    return ('pet' if noun.endswith("'s name") else
            'favourite' if noun.startswith('favourite') else noun)


# ------------------------------------------------------------------------------------ composition
class Conversation:
    """Grows turn by turn. `facts` maps (owner, noun) to the current value."""

    def __init__(self, r):
        self.r = r
        self.turns = []
        self.facts = {}
        self.order = []       # keys in the order of telling, updates included
        self.recalls = []     # (index of the answering turn, key, or None for a fact never told)

    def add(self, user, assistant):
        self.turns += [('user', user), ('assistant', assistant)]

    # -- facts
    def new_key(self):
        """An (owner, noun) not told yet; often the noun of another one, with a different owner."""
        r = self.r
        while True:
            x = r.random()
            owner = ('my' if x < .6 else
                     f"my {r.choice(RELATIVES)}'s" if x < .85 else f"{proper(r)}'s")
            x = r.random()
            noun = (r.choice(COMMON) if x < .35 else r.choice(list(VALUES)) if x < .85 else
                    f'{r.choice(ADJECTIVES + COLOURS)} {r.choice(NOUNS)} '
                    + r.choice(('code', 'number', 'name', 'word')))
            told = [k[1] for k in self.facts if ':' not in k[1] and k[0] not in ('the', 'key')]
            if told and r.random() < .4:
                noun = r.choice(told)
            if (owner, noun) not in self.facts:
                return owner, noun

    def new_value(self, key):
        r, noun = self.r, key[1]
        if noun.startswith('place:'):
            return place(r)
        value = (VALUES[noun](r) if noun in VALUES else proper(r) if noun.endswith('name') else
                 pseudo(r) if noun.endswith('word') else digits(r, 3, 4, 5, 6))
        return value.lower() if r.random() < .08 else value

    def learn(self, key, value=None):
        self.facts[key] = value or self.new_value(key)
        self.order.append(key)
        return self.facts[key]

    def words(self, key):
        value = self.facts.get(key, '')
        return {**owner_words(key[0]), **noun_words(key[1]), 'v': value, 'm': marked(value)}

    def statement(self, key):
        r, (owner, noun) = self.r, key
        special = (TELL_MINE if owner == 'my' else TELL_OTHER).get(family(noun), ())
        if noun.startswith('place:'):
            template = r.choice(TELL_PLACE)
        else:
            template = r.choice(special) if special and r.random() < .55 else TELL
        return template.format(**self.words(key))

    def tell(self):
        """One to three facts in a turn, as sentences or joined by "and"."""
        r = self.r
        n = r.choices((1, 2, 3), (.74, .2, .06))[0]
        keys = []
        introduction = [('my', noun) for noun in ('name', 'city', 'job', 'age', 'favourite colour')]
        for _ in range(n):
            free = [k for k in introduction if k not in self.facts]
            if n > 1 and free and r.random() < .4:
                key = r.choice(free) if keys else free[0]
            elif r.random() < .12:
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
            parts = [uncap(p)[:-1] for p in parts]
            text = cap(', '.join(parts[:-1]) + ' and ' + parts[-1] + '.')
        else:
            text = ' '.join(parts)
        if ('my', 'name') in keys and r.random() < .5:
            greeting = r.choice(GREETINGS)
            text = greeting + (uncap(text) if greeting.endswith(', ') else text)
        elif r.random() < .45:
            text = self.lead_in(text)
        self.add(text, self.acknowledgement(keys))

    def lead_in(self, text):
        """Put "By the way, " or the like in front, and adapt the case of the next letter."""
        lead = self.r.choice(BEFORE_TELLING)
        return lead + (text if lead.endswith('? ') else uncap(text))

    def acknowledgement(self, keys):
        r = self.r
        if len(keys) > 1 or r.random() < .5:
            if ('my', 'name') in keys and r.random() < .4:
                return r.choice(ACK_NAME).format(**self.words(('my', 'name')))
            return r.choice(ACK_SHORT)
        key = keys[0]
        table = (ACK_PLACE if key[1].startswith('place:') else
                 ACK_NAME if key == ('my', 'name') and r.random() < .7 else ACK)
        return r.choice(table).format(**self.words(key))

    def update(self):
        """A fact changes; the value told last is valid."""
        r = self.r
        keys = [k for k in self.facts
                if not k[1].startswith('list:') and k[0] not in ('the', 'key')]
        if not keys:
            return self.tell()
        key = r.choice(keys)
        self.learn(key)
        if key[1].startswith('place:'):
            text = r.choice(UPDATE_PLACE)
            ack = r.choice(('Okay, I have updated that.',) + ACK_PLACE)
            return self.add(text.format(**self.words(key)), ack.format(**self.words(key)))
        text = (r.choice(UPDATE).format(**self.words(key)) if r.random() < .9 else
                self.statement(key))
        ack = r.choice(ACK_UPDATE).format(**self.words(key)) if r.random() < .5 \
            else 'Okay, I have updated that.'
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

    def fact(self):
        x = self.r.random()
        if x < .24 and self.facts:
            self.update()
        elif x < .29:
            self.tell_list()
        else:
            self.tell()

    # -- questions
    def question(self, key):
        """(question, the answer up to the value)"""
        r, (owner, noun) = self.r, key
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
        r = self.r
        if not self.order or r.random() < .2:
            return self.ask_unknown()
        old_first = self.order[:max(1, len(self.order) // 2)]
        key = r.choice(old_first if r.random() < .5 else self.order)
        self.recalls.append((len(self.turns) + 1, key))
        self.add(*self.answer(key))

    def ask_unknown(self):
        r = self.r
        key = ('my', 'place:' + r.choice(OBJECTS)) if r.random() < .2 else self.new_key()
        if key in self.facts:
            return
        question, start = self.question(key)
        what = ('place' if key[1].startswith('place:') else
                start.split()[-1] if key[1] in ('city', 'name') else '')
        self.recalls.append((len(self.turns) + 1, None))
        self.add(question, f'{start}{marked(UNKNOWN.get(what, UNKNOWN[""]))}.')

    # -- filler
    def sentence(self):
        r = self.r
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

    def document(self, n=None):
        r = self.r
        n = n or r.randint(2, 8)
        x = r.random()
        if x < .58:
            return ' '.join(self.sentence() for _ in range(n))
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

    def read_document(self, n=None):
        r = self.r
        self.add(r.choice(READ_THIS) + self.document(n), r.choice(HAVE_READ))

    def story(self):
        r = self.r
        animal = r.choice(list(ANIMALS))
        told = ' '.join(STORY).format(
            a=animal, n=r.choice(NAMES), x=r.choice(NOUNS), y=r.choice(NOUNS),
            j1=r.choice(ADJECTIVES), j2=r.choice(ADJECTIVES), j3=r.choice(ADJECTIVES),
            took=r.choice(('took', 'carried', 'brought')),
            feel=r.choice(('happy', 'curious', 'surprised', 'proud')),
            end=r.choice(('happy', 'safe', 'together', 'famous')))
        self.add(r.choice(STORY_ASK).format(a=a_or_an(animal)), told)

    def animal(self):
        r = self.r
        name = r.choice(list(ANIMALS))
        many, eats, lives, sound, kind, legs = ANIMALS[name]
        ask, reply = r.choice(ANIMAL_CHAT)
        if '{s}' in reply and sound == 'nothing':
            reply = '{A} makes no sound.' if '{A}' in reply else '{P} make no sound.'
        words = {'a': a_or_an(name), 'A': cap(a_or_an(name)), 'p': many, 'P': cap(many), 'e': eats,
                 'l': lives, 's': sound, 'c': kind, 'cs': CLASS_PLURAL[kind], 'g': legs}
        reply = reply.replace('a {c}', a_or_an(kind))
        self.add(ask.format(**words), reply.format(**words))

    def arithmetic(self):
        r = self.r
        a, b = r.randint(0, 10), r.randint(0, 10)
        x = r.random()
        if x < .5:
            return self.add(f'What is {NUMBERS[a]} plus {NUMBERS[b]}?',
                            f'{cap(NUMBERS[a])} plus {NUMBERS[b]} is {NUMBERS[a + b]}.')
        if x < .75:
            return self.add(f'What is {a} + {b}?', f'{a} + {b} is {a + b}.')
        a, b = max(a, b), min(a, b)
        self.add(f'What is {NUMBERS[a]} minus {NUMBERS[b]}?',
                 f'{cap(NUMBERS[a])} minus {NUMBERS[b]} is {NUMBERS[a - b]}.')

    def capital(self):
        country = self.r.choice(list(CAPITALS))
        ask = self.r.choice(('What is the capital of {}?', 'Do you know the capital of {}?',
                             'Capital of {}?'))
        self.add(ask.format(country), f'The capital of {country} is {CAPITALS[country]}.')

    def opposite(self):
        a, b = self.r.sample(self.r.choice(OPPOSITES), 2)
        self.add(f'What is the opposite of {a}?', f'The opposite of {a} is {b}.')

    def calendar(self):
        r = self.r
        days, what = r.choice(((DAYS, 'day'), (MONTHS, 'month')))
        i = r.randrange(len(days))
        step, word = r.choice(((1, 'after'), (-1, 'before')))
        self.add(f"{r.choice(('What', 'Which'))} {what} comes {word} {days[i]}?",
                 f'{days[(i + step) % len(days)]} comes {word} {days[i]}.')

    def colour_of(self):
        thing = self.r.choice(list(THING_COLOURS))
        name = thing.replace('_', ' ')
        self.add(f'What colour is {name[0].lower() + name[1:]}?',
                 f'{name} is {THING_COLOURS[thing]}.')

    def small_talk(self):
        r = self.r
        says, replies = r.choice(SMALL_TALK)
        words = {'w': r.choice(WEATHER), 'f': r.choice(FOODS), 'd': r.choice(DRINKS),
                 't': r.choice(SPORTS), 'x': r.choice(NOUNS)}
        self.add(r.choice(says).format(**words), r.choice(replies).format(**words))

    def chatter(self):
        """Small talk, or a question beyond this model."""
        r = self.r
        if r.random() < .5:
            return self.add(self.sentence(), r.choice(CHATTER))
        says, replies = BEYOND
        words = {'x': r.choice(NOUNS), 'j': r.choice(ADJECTIVES), 'p': r.choice(PEOPLE),
                 'b': r.choice(VERBS_OBJECT)}
        self.add(r.choice(says).format(**words), r.choice(replies))

    FILLERS = ((read_document, .16), (story, .08), (animal, .18), (arithmetic, .08), (capital, .07),
               (opposite, .05), (calendar, .04), (colour_of, .03),
               (small_talk, .25), (chatter, .06))

    def filler(self, long=False):
        if long:
            return self.read_document(self.r.randint(4, 16))
        makers, weights = zip(*self.FILLERS)
        self.r.choices(makers, weights)[0](self)

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
        parts = [self.document() for _ in range(n)] + [needle]
        parts += [self.document() for _ in range(n and r.randint(0, n))]
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
                digits(r, *range(3, 13)) if x < .6 else runs(r, 10) if x < .7 else self.sentence()[:-1])
        self.add(r.choice(REPEAT) + text, marked(text))


MODES = {  # chance of (fact, question, document with a secret or key-value list, copy, long filler)
    'dense': (.34, .40, .06, .08, 0), 'mixed': (.2, .3, .06, .05, .1),
    'sparse': (.08, .15, .03, .03, .25), 'document': (.08, .15, .35, .08, .1)}


def conversation(r, n_tokens, count, mode):
    """A conversation of at least n_tokens; count(text) gives a text's tokens."""
    c = Conversation(r)
    fact, ask, find, copy, long = MODES[mode]
    used = seen = 0
    if r.random() < .3:
        c.filler()
    for _ in range(r.randint(1, 3)):
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
    blocks = []

    def grab(make, *args):
        make(*args)
        turns, c.turns = c.turns, []
        return turns

    if kind == 'chat':
        blocks = [grab(c.fact) for _ in range(n_facts)]
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
    questions = [c.answer(key) for key in c.facts]
    r.shuffle(questions)
    return turns, questions


def sloppy(r, turns):
    """A user who never uses capitals, often no final punctuation either."""
    strip = r.random() < .6
    out = []
    for role, text in turns:
        if role == 'assistant':      # only a value told in lower case is answered so
            parts = text.split(MARK)
            parts[1::2] = [p.lower() for p in parts[1::2]]
            text = MARK.join(parts)
        else:
            text = text.lower()
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
