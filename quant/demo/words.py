"""Words and values: what the demo model's conversations are about. All text is our own; no corpus is
read."""

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
INSTRUMENTS = """piano guitar violin flute drums cello trumpet harp saxophone clarinet organ banjo
accordion""".split()
LANGUAGES = """English German French Spanish Italian Dutch Polish Greek Turkish Russian Chinese Japanese
Korean Arabic Hindi Swedish Danish""".split()
ALLERGENS = """peanuts milk eggs nuts wheat fish pollen cats dogs strawberries soy shrimps dust bees
honey""".split()
SUBJECTS = """biology physics chemistry history law medicine music art geography economics mathematics
philosophy literature engineering""".split()
CARS = """truck van taxi tractor bus motorbike jeep scooter minibus limousine""".split()
COLLECTIONS = """stamps coins shells stones books records postcards butterflies dolls bottles spoons hats
clocks masks""".split()
COUNTRIES = """Crete Iceland Greece Portugal Norway Japan Canada Mexico Brazil Egypt Ireland Scotland
Malta Cyprus Sicily Kenya Peru Chile Cuba Finland""".split()
FEARS = 'spiders snakes heights ghosts dogs thunder mice water darkness lions storms'.split()
EVENTS = """concert party meeting match film play lecture exam wedding show class race market
lesson ceremony dinner""".split()
LIST_ITEMS = """milk bread apples eggs rice soap butter cheese salt sugar flour tea coffee paper onions
potatoes tomatoes honey oil bananas carrots lemons water pasta candles pens batteries jam yoghurt
garlic""".split()
MRS = 'Mrs', 'Mr', 'Dr.', 'Miss'
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


def boss(r):
    return proper(r) if r.random() < .7 else r.choice(MRS) + ' ' + proper(r)


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
    'best friend': proper, 'teacher': boss, 'boss': boss,
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
VALUES |= {  # facts that are told by a verb; their sentences are in tables/facts.txt
    'instrument': lambda r: known(r, INSTRUMENTS), 'language': lambda r: known(r, LANGUAGES).capitalize(),
    'allergy': lambda r: known(r, ALLERGENS, .85), 'hated food': lambda r: known(r, FOODS + LIST_ITEMS, .9),
    'loved thing': lambda r: known(r, SPORTS + FOODS + COLLECTIONS, .9),
    'subject': lambda r: known(r, SUBJECTS, .9), 'vehicle': lambda r: known(r, CARS),
    'collection': lambda r: known(r, COLLECTIONS, .85),
    'holiday': lambda r: known(r, COUNTRIES + CITIES, .85).capitalize(), 'partner': proper,
    'gift': lambda r: known(r, NOUNS, .9), 'meal': lambda r: known(r, FOODS, .9),
    'wish': lambda r: known(r, JOBS, .9), 'fear': lambda r: known(r, FEARS, .9),
    'siblings': lambda r: r.choice(NUMBERS[2:10]), 'bedroom': place,
}
COMMON = ['name', 'locker code', 'city', 'favourite colour', "dog's name", "cat's name", 'birthday',
          'wifi password', 'pin code', 'phone number', 'favourite food', 'job', 'best friend',
          'door code', 'age']
LISTS = {'shopping list': FRUITS + FOODS + DRINKS + LIST_ITEMS, 'packing list': OBJECTS, 'guest list': NAMES,
         'reading list': NAMES, 'to-do list': SPORTS}
