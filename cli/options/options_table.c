#include "cli/options/options_parts.h"

#include <limits.h>
#include <stddef.h>

/* The field's own type decides how its value is read, so that table and struct cannot disagree.
 * Enums are unsigned to the compiler. */
/* clang-format off */
#define AT(field) \
    .kind = _Generic(((struct options *)0)->field, bool: FLAG, const char *: TEXT, int: INT, \
                     int64_t: SIZE, uint64_t: SEED, float: DECIMAL, unsigned: CHOICE, \
                     struct engine_device: DEVICE, struct engine_heads: HEADS_FILE, \
                     struct options_policies: POLICIES, struct options_kvs: FORMATS, \
                     struct options_recalls: RECALLS, struct plan_speculate: SPECULATE, \
                     struct options_numbers: NUMBERS, struct options_files: FILES), \
    .offset = offsetof(struct options, field), .size = sizeof ((struct options *)0)->field
/* clang-format on */

#define EVERY (~0U) /* all commands */

/* Shorter to read than 80 rows of full designators: the order is name, letter, field, groups. */
#define ROW(n, l, f, g) .name = n, .letter = l, AT(f), .groups = (unsigned)(g)

/* clang-format off */
const struct option options_table[] = {
    {.name = "Conversation"},
    {ROW("conversation", 'c', session.conversation, OPTIONS_CHAT), .cli_only = true, .value = "NAME",
     .help = "continue this conversation, or start it"},
    {ROW("continue", 0, session.continue_latest, OPTIONS_CHAT), .help = "continue the latest conversation"},
    {ROW("new", 0, session.new_conversation, OPTIONS_CHAT), .help = "start a new conversation"},
    {ROW("plain", 0, chat.plain, OPTIONS_CHAT), .help = "plain lines instead of the screen"},
    {ROW("color", 0, chat.color, OPTIONS_CHAT | OPTIONS_SCREEN), .display = true, .choices = "auto,never,16,256,true", .value = "auto|never|16|256|true",
     .help = "colours of the screen; auto: as many as the terminal has, none with NO_COLOR; true: 24 bits"},
    {ROW("background", 0, chat.background, OPTIONS_CHAT | OPTIONS_SCREEN | OPTIONS_REPLAY), .display = true, .choices = "auto,dark,light",
     .value = "auto|dark|light", .help = "of the terminal; auto: ask it"},
    {ROW("contrast", 0, chat.contrast, OPTIONS_CHAT), .display = true, .help = "no grey text on the screen, apart from evicted words"},
    {ROW("mouse", 0, chat.mouse, OPTIONS_CHAT), .display = true, .help = "use the mouse: wheel and clicks; also /mouse"},
    {ROW("ascii", 0, chat.ascii, OPTIONS_CHAT | OPTIONS_SCREEN | OPTIONS_REPLAY), .display = true, .help = "draw with ASCII characters only"},
    {ROW("reduced-motion", 0, chat.reduced_motion, OPTIONS_CHAT | OPTIONS_SCREEN), .display = true, .help = "no flashing on the screen"},
    {ROW("no-title", 0, chat.no_title, OPTIONS_CHAT), .display = true, .help = "leave the title of the window as it is"},
    {ROW("no-bell", 0, chat.no_bell, OPTIONS_CHAT), .display = true,
     .help = "no bell when an answer of over 10 s ends while another window has the focus"},
    {ROW("progress", 0, chat.progress, OPTIONS_CHAT), .display = true,
     .help = "show the progress of loading and reading in the window's frame (OSC 9;4)"},
    {ROW("pace", 0, chat.pace, OPTIONS_CHAT | OPTIONS_SCREEN), .display = true, .max = 1e6, .value = "N",
     .help = "show at most N tokens of an answer a second on the screen; 0 = as many as there are. By default 40 "
             "with the demo model, else 0"},
    {ROW("record", 0, chat.record, OPTIONS_CHAT), .cli_only = true, .value = "FILE",
     .help = "record the screen and the keys typed (retain replay)"},
    {ROW("svg", 0, svg, OPTIONS_REPLAY), .cli_only = true, .value = "FILE",
     .help = "draw the last frame as an SVG"},
    {ROW("no-markdown", 0, chat.no_markdown, OPTIONS_CHAT), .rare = true,
     .help = "show answers as the model writes them, with Markdown marks"},
    {ROW("system", 0, session.system, OPTIONS_CHAT | OPTIONS_GENERATE | OPTIONS_TEMPLATE), .value = "TEXT",
     .help = "instructions for the model before the first message"},
    {ROW("private", 0, session.private_mode, OPTIONS_CHAT), .help = "save nothing"},
    {ROW("db", 0, store.db, OPTIONS_STORE), .value = "FILE", .help = "where conversations are saved"},
    {ROW("encrypt", 0, store.encrypt, OPTIONS_STORE), .help = "encrypt a new database with a passphrase"},
    {ROW("passphrase-file", 0, store.passphrase_file, OPTIONS_STORE), .value = "FILE",
     .help = "read the passphrase from this file's first line"},
    {ROW("cache-quota", 0, session.cache_quota, OPTIONS_CHAT), .rare = true, .max = 1e15, .value = "SIZE",
     .help = "maximum size of saved caches; texts are always kept"},
    {ROW("rewind", 0, session.rewind, OPTIONS_CHAT), .rare = true, .max = 1e15, .value = "SIZE",
     .help = "evicted units kept on disk, so that going back needs no replay"},
    {ROW("with-cache", 0, store.with_cache, OPTIONS_EXPORT), .cli_only = true, .value = "FILE",
     .help = "one file with text and saved cache"},
    {ROW("cache-only", 0, store.cache_only, OPTIONS_DELETE), .cli_only = true,
     .help = "delete the saved cache, keep the text"},
    {ROW("yes", 0, yes, OPTIONS_CHAT), .rare = true, .cli_only = true,
     .help = "agree that another model (-m) reads the text of a saved conversation again"},
    {ROW("tag", 0, store.tag, OPTIONS_LIST), .cli_only = true, .value = "TAG",
     .help = "only those with this tag"},
    {ROW("remove", 0, store.remove, OPTIONS_TAG), .cli_only = true, .help = "remove the tags"},
    {ROW("limit", 0, store.limit, OPTIONS_FIND), .max = 1e9, .value = "N", .help = "maximum results; 0 = all"},

    {.name = "Text"},
    {ROW("prompt", 'p', text.prompt, OPTIONS_TEXT), .cli_only = true, .value = "TEXT",
     .help = "the text itself"},
    {ROW("file", 'f', text.files, OPTIONS_TEXT), .cli_only = true, .value = "FILE",
     .help = "a file with the text; - is standard input. generate: may be repeated; standard input, the files and "
             "last the prompt are joined"},
    {ROW("raw", 0, session.raw, OPTIONS_GENERATE | OPTIONS_EVAL), .cli_only = true,
     .help = "run the text without a chat template"},
    {ROW("ids", 0, text.ids, OPTIONS_TOKENIZE | OPTIONS_TEMPLATE), .cli_only = true, .help = "print token ids only, on one line"},
    {ROW("no-special", 0, text.no_special, OPTIONS_TOKENIZE), .cli_only = true,
     .help = "add and recognise no special tokens"},

    {.name = "Model"},
    {ROW("model", 'm', engine.model, OPTIONS_MODEL), .value = "FILE",
     .help = "a GGUF file, a name that `retain models` lists, or an address (retain pull); `retain models default` sets it permanently"},
    {ROW("allow-host", 0, pull.allow_host, OPTIONS_MODEL | OPTIONS_PULL), .rare = true, .value = "HOST,…",
     .help = "other hosts to which a download may be redirected, with the hosts below them"},
    {ROW("accept-model", 0, engine.accept_model, OPTIONS_MODEL), .rare = true, .cli_only = true,
     .help = "accept a model file that changed since it was last used"},
    {ROW("verify", 0, engine.verify, OPTIONS_MODEL), .rare = true, .choices = "sample,full,off",
     .value = "full|sample|off",
     .help = "read the whole model file and compare it with its known digest; sample: only if the file is "
             "new or looks changed; off: never"},
    {ROW("no-weight-cache", 0, no_weight_cache, OPTIONS_MODEL), .rare = true,
     .help = "do not keep or use a copy of the packed weights in the cache folder, from which later starts "
             "map them"},
    {ROW("template", 0, engine.template_name, OPTIONS_CHAT | OPTIONS_GENERATE | OPTIONS_EVAL | OPTIONS_TEMPLATE), .kept = true, .value = "NAME",
     .help = "the chat format, instead of the model file's own"},
    {ROW("weights", 0, engine.weights, OPTIONS_MODEL), .rare = true, .choices = "file,f32", .value = "file|f32",
     .help = "as stored, or expanded to float32, exactly (slow)"},
    {ROW("device", 0, engine.device, OPTIONS_MODEL), .value = "NAME", .help = "auto, cpu, cuda or cuda:N"},
    {ROW("gpu-layers", 0, engine.gpu_layers, OPTIONS_MODEL), .max = MODEL_LAYERS_MAX, .value = "N",
     .help = "the first N layers and their units are on the GPU, the others on the CPU; 0 = all, or with "
             "--device auto as many as fit"},
    {ROW("experts", 0, engine.experts, OPTIONS_MODEL), .choices = "auto,host,file", .value = "auto|host|file",
     .help = "where a model's experts are. auto: on the GPU as far as they fit, the others in memory; host: all in memory, computed "
             "by the CPU; file: on disk, read from the packed weights"},
    {ROW("threads", 0, engine.threads, OPTIONS_MODEL | OPTIONS_QUANTIZE), .max = 1024, .value = "N",
     .help = "processor threads; 0 = one per physical core, only fast ones of hybrid processors"},
    {ROW("isa", 0, engine.isa, OPTIONS_MODEL | OPTIONS_QUANTIZE), .rare = true, .value = "NAME",
     .help = "instruction set: ref, avx2, avxvnni, avx512, neon, dotprod, i8mm; the best by default"},

    {.name = "Quantizing"},
    {ROW("type", 0, quantize.type, OPTIONS_QUANTIZE), .choices = "q4,q8", .value = "q4|q8",
     .help = "int4 (Q4_0) or int8 (Q8_0)"},
    {ROW("force", 0, force, OPTIONS_QUANTIZE | OPTIONS_HEADS | OPTIONS_PULL), .cli_only = true,
     .help = "replace an existing file; pull: also download a model that does not fit into memory"},

    {.name = "Retaining heads"},
    {ROW("data", 0, training.data, OPTIONS_HEADS), .cli_only = true, .value = "FILE",
     .help = "training data, one row per line: {\"document\": \"…\", \"question\": \"…\", \"answer\": "
             "\"…\"}; a document may be an array of messages, questions and answers arrays too"},
    {ROW("text", 0, training.text, OPTIONS_HEADS), .cli_only = true, .value = "FILE",
     .help = "train or calibrate on any text in UTF-8; more files may follow as arguments; import: also calibrate"},
    {ROW("out", 0, training.out, OPTIONS_HEADS), .cli_only = true, .value = "FILE",
     .help = "the file to write"},
    {ROW("steps", 0, training.steps, OPTIONS_HEADS), .min = 1, .max = 1e7, .value = "N",
     .help = "training steps; calibrate: rows to read"},
    {ROW("batch", 0, training.batch, OPTIONS_HEADS), .min = 1, .max = 1024, .value = "N",
     .help = "rows per step"},
    {ROW("rate", 0, training.rate, OPTIONS_HEADS), .min = 0, .max = 1, .value = "X", .help = "learning rate"},
    {ROW("hidden", 0, training.hidden, OPTIONS_HEADS), .min = 1, .max = 65536, .value = "N",
     .help = "width of the heads"},

    {.name = "Memory"},
    {ROW("memory", 0, session.plan.memory, OPTIONS_MEMORY | OPTIONS_HEADS), .min = 1, .max = 1e15, .value = "SIZE",
     .help = "maximum memory, for example 6G or 512M; the budget is the largest that fits"},
    {ROW("budget", 0, sweep.budgets, OPTIONS_MEMORY), .kept = true, .min = PLAN_BUDGET_MIN, .max = PLAN_BUDGET_MAX,
     .value = "N", .help = "cache units per head"},
    {ROW("policy", 0, sweep.policies, OPTIONS_MEMORY), .kept = true, .value = "NAME",
     .help = "which units are kept when a head is full; NAME:key=N,key=N changes the policy's keys (man retain "
             "explains them)"},
    {ROW("attention", 0, session.plan.attention, OPTIONS_MEMORY), .rare = true, .choices = "auto,float", .value = "auto|float",
     .help = "a prompt's attention on a GPU: auto (default) multiplies int8 queries and keys on GeForce, where "
             "that is twice as fast; float: halves with float sums everywhere"},
    {ROW("heads", 0, engine.heads, OPTIONS_MODEL), .kept = true, .value = "FILE",
     .help = "retaining heads from this file; none = without heads"},
    {ROW("kv", 0, sweep.kvs, OPTIONS_MEMORY), .kept = true, .value = "FORMAT",
     .help = "cache format: q4, q5, q8, f16, f32, or keys and values separately; q5:q4 by default"},
    {ROW("recall", 0, sweep.recalls, OPTIONS_MEMORY), .kept = true, .value = "off|words",
     .help = "words (default; eval: off): bring back evicted units whose words, or words like them, occur in the message"},
    {ROW("recall-from", 0, chat.recall_from, OPTIONS_CHAT), .value = "NAME,…",
     .help = "before each message, read sentences about it from these conversations (all: from every one)"},
    {ROW("archive", 0, session.recall.archive_bytes, OPTIONS_MEMORY), .rare = true, .max = 1e15, .value = "SIZE",
     .help = "size of each conversation's archive of evicted units, for recall; default: 1G on disk, "
             "64M in memory if nothing is saved"},
    {ROW("speculate", 0, session.plan.speculate, OPTIONS_MEMORY), .value = "auto|off|N",
     .help = "run up to N proposals with the next token: tokens that followed the same words earlier, or those of the "
             "model's MTP layer; the text stays the same. auto (default): as many as make it faster"},
    {ROW("chunk", 0, session.plan.chunk, OPTIONS_MEMORY), .rare = true, .max = 65536, .value = "N",
     .help = "tokens per prefill step; 0 = the default"},

    {.name = "Sampling; by default as the model file says"},
    {ROW("temp", 0, session.sampling.temperature, OPTIONS_SAMPLING), .kept = true, .max = 100, .value = "T",
     .help = "0 = always the most likely token"},
    {ROW("top-k", 0, session.sampling.top_k, OPTIONS_SAMPLING), .kept = true, .max = 1e6, .value = "N",
     .help = "keep the N most likely tokens; 0 = all"},
    {ROW("top-p", 0, session.sampling.top_p, OPTIONS_SAMPLING), .kept = true, .max = 1, .value = "P",
     .help = "keep the likeliest tokens that add up to P; 1 = all"},
    {ROW("min-p", 0, session.sampling.min_p, OPTIONS_SAMPLING), .kept = true, .max = 1, .value = "P",
     .help = "keep tokens at least P times as likely as the best; 0 = all"},
    {ROW("repeat-penalty", 0, session.sampling.repeat_penalty, OPTIONS_SAMPLING), .kept = true, .min = 0.01, .max = 100,
     .value = "X", .help = "make tokens that the answer contains less likely; 1 = off"},
    {ROW("repeat-last", 0, session.sampling.repeat_last, OPTIONS_SAMPLING), .kept = true, .max = SAMPLER_HISTORY, .value = "N",
     .help = "how many of the answer's last tokens --repeat-penalty sees"},
    {ROW("seed", 0, session.sampling.seed,
         OPTIONS_SAMPLING | OPTIONS_EVAL | OPTIONS_BENCH | OPTIONS_HEADS), .value = "N",
     .help = "the same N gives the same text; eval: the N of the first run"},
    {ROW("max-tokens", 'n', session.max_tokens, OPTIONS_SAMPLING), .max = 1e9, .value = "N",
     .help = "maximum tokens per answer; 0 = until it ends, at most 32,768"},
    {ROW("think", 0, session.think, OPTIONS_SAMPLING | OPTIONS_TEMPLATE), .kept = true, .choices = "auto,on,off,low,medium,high",
     .value = "HOW", .help = "whether the model thinks before it answers: on, off, low, medium, high or auto (its template "
     "decides)"},
    {ROW("keep-thoughts", 0, session.keep_thoughts, OPTIONS_SAMPLING | OPTIONS_EVAL), .rare = true,
     .help = "keep the units of finished thoughts until they are evicted like other units (default: until the answer is over)"},
    {ROW("ignore-end", 0, session.ignore_end, OPTIONS_SAMPLING), .rare = true,
     .help = "continue when the model ends its answer or repeats itself"},

    {.name = "Measuring"},
    {ROW("length", 0, sweep.lengths, OPTIONS_EVAL | OPTIONS_HEADS), .min = 1, .max = UINT32_MAX,
     .value = "N,…", .help = "tokens of the tasks"},
    {ROW("seeds", 0, eval.seeds, OPTIONS_EVAL), .min = 1, .max = 10000, .value = "N",
     .help = "runs of each task, with different facts in different places; 3 by default"},
    {ROW("compression", 0, sweep.compressions, OPTIONS_EVAL), .min = 1, .max = UINT32_MAX,
     .value = "N,…", .help = "budgets as a fraction of the length: 8 keeps an eighth"},
    {ROW("answers", 0, eval.answers, OPTIONS_EVAL), .cli_only = true,
     .help = "print each question and its answer as a line of JSON"},
    {ROW("results", 0, eval.results, OPTIONS_EVAL), .cli_only = true, .value = "FILE",
     .help = "append each finished question or seed to FILE as a line of JSON; items in it are not run again, "
             "so that a killed run continues"},
    {ROW("as", 0, eval.as, OPTIONS_EVAL), .cli_only = true, .choices = "prompt,conversation",
     .value = "prompt|conversation",
     .help = "documents of files: prompt (default): one message with the question; conversation: told in turns before it"},
    {ROW("items", 0, eval.items, OPTIONS_EVAL), .cli_only = true, .min = 1, .max = 1e9, .value = "N",
     .help = "the first N questions of each file"},
    {ROW("depth", 0, sweep.depths, OPTIONS_BENCH), .max = UINT32_MAX, .value = "N,…",
     .help = "tokens in the conversation before measuring; random units with policy full"},
    {ROW("prefill", 0, bench.prefill, OPTIONS_BENCH), .min = 1, .max = 1e9, .value = "N",
     .help = "prompt tokens to time"},
    {ROW("decode", 0, bench.decode, OPTIONS_BENCH), .min = 1, .max = 1e9, .value = "N",
     .help = "generated tokens to time"},
    {ROW("repeat", 0, bench.repeat, OPTIONS_BENCH), .min = 1, .max = OPTIONS_REPEAT_MAX, .value = "N",
     .help = "runs of each measurement"},

    {.name = "Other"},
    {ROW("json", 0, json, OPTIONS_JSON), .cli_only = true, .help = "one JSON object per line"},
    {ROW("safe", 0, safe, EVERY), .cli_only = true,
     .help = "do not read the configuration file"},
    {ROW("print-config", 0, print_config, EVERY), .cli_only = true,
     .help = "print the current settings as a configuration file"},
    {ROW("help", 'h', help, EVERY), .cli_only = true, .help = "this list"},
};
/* clang-format on */

const size_t options_table_n = sizeof options_table / sizeof *options_table;
_Static_assert(sizeof options_table / sizeof *options_table <= OPTIONS_MAX, "one bit for each");
_Static_assert(sizeof(struct options) <= USHRT_MAX, "offsets are kept in 16 bits");

void options_init(struct options *o)
{
    *o = (struct options){
        .session = session_opts_default(),
        .chat = {.color = "auto", .background = "auto", .pace = -1},
    };
}
