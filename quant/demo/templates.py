"""Fixed sentences of the conversations: documents, fillers, and the ways to tell and ask that
`retain eval` knows (quant/eval/task_words.h)."""
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

CHATTER = ('I see.', 'That sounds interesting.', 'Tell me more.')
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
