#!/usr/bin/env python3
"""Small conversations of retain's own in the formats of LongMemEval and LoCoMo, for convert.py.

    sample.py longmemeval >own.json    18 questions of each kind: knowledge-update, multi-session, temporal-reasoning
    sample.py locomo >own.json         one conversation of 24 sessions with 36 questions

What retain reads is made here; the real files, which are much longer, run with the same commands. An
`answer_prefix` holds the first words of an answer, for models too small to answer in a sentence.
"""
import datetime
import json
import random
import sys

# the question, the first words of its answer, the rest of it, and what the user said about it, oldest first
UPDATE = """
What is my pin code?|Your pin code is|3453|My pin code is 7394.|My new pin code is 3453.
Where do I live now?|You live in|Ghent|I live in Oslo, near the harbour.|I moved, and now I live in Ghent.
What car do I drive now?|You drive a|Volvo|I drive an old Fiat.|I sold the Fiat. I drive a Volvo now.
What is my dentist called?|Your dentist is called|Dr. Moreau|My dentist is called Dr. Hale.|I changed my dentist. My dentist is called Dr. Moreau.
What time does my yoga class start?|Your yoga class starts at|7:30|My yoga class starts at 6:15.|They moved my yoga class. It starts at 7:30 now.
Which floor is my office on?|Your office is on the|ninth|My office is on the second floor.|We moved: my office is on the ninth floor now.
What is my wifi password?|Your wifi password is|maple88|My wifi password is otter41.|I changed my wifi password to maple88.
How much do I pay for the gym?|You pay|42 euros|For the gym I pay 30 euros a month.|The gym is more expensive now. For the gym I pay 42 euros.
What colour is my front door?|Your front door is|green|My front door is blue.|I painted my front door. It is green now.
Who cuts my hair?|Your hair is cut by|Lucia|Bernd cuts my hair.|Bernd retired. Lucia cuts my hair now.
What is the name of my team at work?|Your team is called|Falcon|My team at work is called Harbour.|My team at work has a new name. It is called Falcon.
What do I drink in the morning?|In the morning you drink|green tea|In the morning I drink black coffee.|No coffee any more. In the morning I drink green tea.
Which bus takes me to work?|You take bus|61|Bus 14 takes me to work.|Bus 14 was cancelled. Bus 61 takes me to work now.
What is my locker number?|Your locker number is|508|My locker number is 217.|I got another locker. My locker number is 508.
Who is my neighbour?|Your neighbour is|Mr. Okafor|My neighbour is Mrs. Lindgren.|Mrs. Lindgren moved out. My neighbour is Mr. Okafor now.
Which language do I learn?|You learn|Portuguese|I learn Italian in the evenings.|I stopped with Italian. I learn Portuguese now.
Where is my spare key?|Your spare key is|under the bench|My spare key is behind the lamp.|I put my spare key under the bench.
What is the limit of my bank card?|The limit of your card is|900|The limit of my bank card is 500.|The bank raised the limit of my bank card to 900.
"""
SESSIONS = """
Which two cities did I visit for work?|For work you visited Lyon and|Porto|For work I visited Lyon.|For work I also visited Porto.
Which pets do I have?|You have parrot and|tortoise|I have a parrot as a pet.|I have a second pet now, a tortoise.
Which instruments do I play?|You play cello and|banjo|I play the cello.|I play a second instrument now, the banjo.
Who came to my birthday party?|To your party came Ines and|Tom|Ines came to my birthday party.|I forgot to say that Tom came to my birthday party, too.
What did I plant in the garden?|You planted beans and|leeks|In the garden I planted beans.|In the garden I planted leeks, too.
Which books did I read this month?|This month you read Emma and|Dracula|This month I read the book Emma.|The second book that I read this month is Dracula.
What am I allergic to?|You are allergic to nuts and|pollen|I am allergic to nuts.|The doctor says that I am allergic to pollen as well.
What are my children called?|Your children are called Nora and|Felix|My older child is called Nora.|My younger child is called Felix.
Which tools did I lend to Erik?|You lent Erik drill and|saw|I lent Erik my drill.|I lent Erik my saw as well.
What did I buy at the market?|At the market you bought plums and|cheese|At the market I bought plums.|At the market I bought cheese, too.
Which sports does my brother do?|Your brother does judo and|rowing|My brother does judo.|My brother does rowing as a second sport.
Where have I worked?|You have worked at Nordbank and|Helios|I have worked at Nordbank.|After that I have worked at Helios.
Which mountains did I climb?|You climbed Rysy and|Triglav|I climbed the mountain Rysy.|The second mountain that I climbed is Triglav.
What did my aunt cook?|Your aunt cooked soup and|dumplings|My aunt cooked soup.|My aunt cooked dumplings the next time.
Which rooms did we paint?|You painted the kitchen and|hall|We painted the kitchen.|We painted the hall, too.
What is broken in my car?|Broken are the mirror and|heater|The mirror of my car is broken.|The heater of my car is broken as well.
Which trains did I miss?|You missed the trains to Bern and|Graz|I missed the train to Bern.|I missed another train, the one to Graz.
Who owes me money?|You get money from Paul and|Rita|Paul owes me money.|Rita owes me money, too.
"""
TIME = """
What did I do first, paint the fence or repair the bike?|First you|repair|I repaired the bike today.|I painted the fence today.
Which did I buy last, the lamp or the chair?|Last you bought the|chair|I bought the lamp today.|I bought the chair today.
Whom did I meet first, Hanna or Jakob?|First you met|Jakob|I met Jakob today.|I met Hanna today.
In which month did I start my new job?|You started your new job in|May|I start my new job in May.|My new job is fun.
On which day do I fly to Malta?|You fly to Malta on|Thursday|I fly to Malta on Thursday.|My suitcase for Malta is packed.
In which year was my house built?|Your house was built in|1934|My house was built in 1934.|My house needs a new roof.
What did I see last, the opera or the circus?|Last you saw the|opera|I saw the circus tonight.|I saw the opera tonight.
When does my passport expire?|Your passport expires in|October|My passport expires in October.|I need my passport for a trip.
Which race did I run first, Basel or Turin?|First you ran in|Turin|I ran the race in Turin today.|I ran the race in Basel today.
When is my daughter's exam?|Your daughter's exam is in|March|My daughter's exam is in March.|My daughter learns a lot for her exam.
Which film did I watch last, Vertigo or Alien?|Last you watched|Vertigo|I watched Alien tonight.|I watched Vertigo tonight.
How many weeks was I in hospital?|You were in hospital for|three|I was in hospital for three weeks.|The hospital sent a bill.
When did my grandfather sail to Chile?|Your grandfather sailed to Chile in|1951|My grandfather sailed to Chile in 1951.|My grandfather wrote about Chile.
Which did I lose first, my ring or my glove?|First you lost your|glove|I lost my glove today.|I lost my ring today.
On which day is the choir's concert?|The choir's concert is on|Sunday|The choir's concert is on Sunday.|The choir practises for the concert.
Which wall did we build last, the east or the west one?|Last you built the|west|We built the east wall today.|We built the west wall today.
When does the library close?|The library closes at|eight|The library closes at eight.|I like the library.
What did I eat first, the fig or the melon?|First you ate the|melon|I ate the melon at noon.|I ate the fig at night.
"""
KINDS = {"knowledge-update": UPDATE, "multi-session": SESSIONS, "temporal-reasoning": TIME}
TALK = """
Can you explain how bread rises?|Yeast eats sugar and gives off gas, which is caught in the dough and lifts it.
It rains all day here.|A good day for a book, then, or for a long soup.
Why is the sky red in the evening?|The light takes a longer way through the air, which scatters the blue part of it.
I could not sleep last night.|I am sorry to hear that. A short walk before bed helps many people.
How do bees find their way home?|They remember landmarks and use the sun as a compass.
Tell me something about lighthouses.|The oldest that still works stands in Spain and was built by the Romans.
What is a good name for a boat?|Many people like Swallow, Aurora or Second Wind.
My plants look sad.|Check the soil with a finger. If it is wet below the surface, wait before you water again.
How long do eggs keep?|In the fridge about four weeks. A fresh egg sinks in water, an old one floats.
What makes a good photograph?|Light first of all, then a clear subject and a calm background.
The neighbours have a party.|Music carries far at night. Perhaps they end soon.
Why do cats purr?|Mostly when they are content, but also when they want to calm themselves.
I want to walk more.|Start with the way to the shop, and add one street every week.
How is paper made?|Wood is boiled to pulp, spread on a sieve, pressed and dried.
Is glass a liquid?|No, it is a solid without crystals. Old windows are thick below because they were made so.
What should I cook for six guests?|A big pan of vegetables from the oven, rice, and fruit afterwards.
Do fish sleep?|Most of them rest, with open eyes, and move only a little.
I finished the puzzle.|Well done! A thousand pieces need a lot of patience.
Who invented the umbrella?|It is more than two thousand years old and comes from China and Egypt, where it gave shade.
How cold is the moon?|At night about minus 170 degrees, by day it is hotter than boiling water.
What rhymes with silver?|Nearly nothing. Chilver, a young ewe, is the word that poets use.
The tram was late again.|That is annoying. At least it gives you time for a podcast.
How do I clean a copper pan?|With salt and half a lemon. Rub gently and rinse it at once.
Why do leaves turn yellow?|The green fades first in autumn, and the yellow that was always there is seen.
"""
REPLY = "Thank you for telling me. I will remember it."


def rows(text):
    return [line.split("|") for line in text.strip().splitlines()]


def small_talk(r, n):
    return [turn for pair in r.sample(rows(TALK), n) for turn in pair]


def session(r, said):
    """Turns, the user's first, with something that is said in the middle."""
    before, after = small_talk(r, 2), small_talk(r, 2)
    return before + ([said, REPLY] if said else []) + after


def longmemeval():
    for kind, text in KINDS.items():
        for i, (question, prefix, answer, *said) in enumerate(rows(text)):
            r = random.Random(f"{kind} {i}")
            places = sorted(r.sample(range(10), len(said)))
            at = dict(zip(places, said))
            days = [datetime.datetime(2025, 1, 6, 9, 30) + datetime.timedelta(days=9 * k + r.randrange(5)) for k in range(10)]
            stamp = lambda day: day.strftime("%Y/%m/%d (%a) %H:%M")
            yield {"question_id": f"own-{kind}-{i + 1}", "question_type": kind, "question": question, "answer": answer,
                   "answer_prefix": prefix, "max_tokens": 32, "question_date": stamp(days[-1] + datetime.timedelta(days=7)),
                   "haystack_session_ids": [f"s{k + 1}" for k in range(10)], "haystack_dates": [stamp(day) for day in days],
                   "haystack_sessions": [[{"role": ("user", "assistant")[j % 2], "content": turn,
                                           **({"has_answer": True} if turn == at.get(k) else {})}
                                          for j, turn in enumerate(session(r, at.get(k)))] for k in range(10)],
                   "answer_session_ids": [f"s{k + 1}" for k in places]}


def locomo():
    """Multi-hop questions (category 1), temporal ones (2) and those on changed facts (4), 12 each."""
    r, talk, qa = random.Random(7), {"speaker_a": "Ann", "speaker_b": "Ben"}, []
    said = {k: [] for k in range(24)}
    for category, text in ((1, SESSIONS), (2, TIME), (4, UPDATE)):
        for question, prefix, answer, *facts in rows(text)[:12]:
            places = sorted(r.sample(range(24), len(facts)))
            for k, fact in zip(places, facts):
                said[k].append(fact)
            qa.append({"question": question.replace(" I ", " Ann ").replace(" my ", " Ann's "), "answer": answer,
                       "answer_prefix": prefix.replace("Your", "Ann's").replace("You ", "Ann "), "category": category,
                       "evidence": [f"D{k + 1}" for k in places]})
    for k in range(24):
        day = datetime.date(2025, 1, 4) + datetime.timedelta(days=8 * k)
        turns = small_talk(r, 1) + [turn for fact in said[k] for turn in (fact, REPLY)] + small_talk(r, 1)
        talk[f"session_{k + 1}_date_time"] = f"{1 + k % 11}:{10 + k} pm on {day.day} {day:%B}, {day.year}"
        talk[f"session_{k + 1}"] = [{"speaker": ("Ann", "Ben")[j % 2], "dia_id": f"D{k + 1}:{j + 1}", "text": turn}
                                    for j, turn in enumerate(turns)]
    yield {"sample_id": "own-1", "conversation": talk, "qa": qa}


json.dump(list({"longmemeval": longmemeval, "locomo": locomo}[sys.argv[1]]()), sys.stdout, indent=1)
