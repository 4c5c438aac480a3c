#include "cli/control/keys.h"

#include "cli/control/slash.h"

#define CHAT     IN(VIEW_CHAT)
#define MAP      IN(VIEW_MAP)
#define TINT     IN(VIEW_TINT)
#define LIST     IN(VIEW_LIST)
#define READ     IN(VIEW_READ)
#define PAGES    IN_PAGES
#define OVERLAYS IN_OVERLAYS

#define RUN(command) REQ_RUN(SLASH_##command)

/* The hint bar shows the rows with a hint in this order, as many as fit. */
const struct binding key_table[] = {
    {CHAT, '\r', REQ_SEND, "Enter", "send", "send the message, or queue it while an answer runs"},
    {CHAT, '\n', REQ_NEWLINE, "^J", "newline", "new line in the message"},
    {CHAT, '\r' | K_ALT, REQ_NEWLINE, "Alt-Enter", NULL, "the same"},
    {CHAT, '\r' | K_SHIFT, REQ_NEWLINE, NULL, NULL, NULL},
    {CHAT, CTRL('c'), REQ_INTERRUPT, "^C", NULL, "stop the answer and keep it; or stash the draft"},

    {CHAT, '\t', REQ_COMPLETE, "Tab", NULL, "complete a command, its setting, value or name"},
    {CHAT, CTRL('r'), REQ_HISTORY_SEARCH, "^R", NULL, "search for an earlier message"},
    {CHAT, CTRL('e') | K_PREFIX, RUN(EDITOR), "^X ^E", NULL,
     "write the message in $VISUAL or $EDITOR; also /editor"},
    {CHAT, 'o' | K_ALT, REQ_UNFOLD, "Alt-o", NULL,
     "unfold the pasted text at the cursor, or long messages"},
    {CHAT, K_F1 + 4, RUN(REGENERATE), "F5", NULL, "another answer; also Alt-r and /regenerate"},
    {CHAT, 'r' | K_ALT, RUN(REGENERATE), NULL, NULL, NULL},
    {CHAT, K_F1 + 5, RUN(EDIT), "F6", NULL, "change the last message; also /edit"},
    {CHAT, 'a' | K_ALT, RUN(ANSWER), "Alt-a", NULL, "change the last answer; also /answer"},
    {CHAT, 'c' | K_ALT, RUN(CONTINUE), "Alt-c", NULL, "continue the answer; also /continue"},
    {CHAT, 'n' | K_ALT, RUN(BRANCH), "Alt-n", NULL, "branch the conversation here; also /branch"},
    {CHAT, K_F1 + 6, RUN(SET), "F7", NULL, "settings, their values and ranges; also /set"},
    {CHAT, 't' | K_ALT, RUN(TURNS), "Alt-t", NULL, "all turns; Enter goes to one; also /turns"},
    {CHAT, K_UP | K_ALT, RUN(MESSAGES), "Alt-Up", NULL,
     "walk through the messages: copy, edit, branch, recall, pin; also /messages"},
    {CHAT, '/' | K_ALT, REQ_READ_FIND, "Alt-/", NULL, "search in this conversation"},
    {CHAT, 'k' | K_ALT, REQ_FADING, "Alt-k", NULL,
     "the text shaded by how much of it is kept, or not"},
    {CHAT, 's' | K_ALT, RUN(NOW), "Alt-s", NULL, "stop the answer and send the queue; also /now"},
    {CHAT, 'w' | K_ALT, RUN(COPY), "Alt-w", NULL, "copy the last answer; also /copy"},
    {CHAT, 'e' | K_ALT, RUN(THOUGHT), "Alt-e", NULL, "unfold or fold thoughts; also /thought"},
    {CHAT, 'm' | K_ALT, RUN(RAW), "Alt-m", NULL, "Markdown raw or drawn; also /raw"},

    {MAP, K_LEFT, REQ_LEFT, "arrows", "move", "move the cursor"},
    {MAP, K_RIGHT, REQ_RIGHT, NULL, NULL, NULL},
    {MAP, K_UP, REQ_UP, NULL, NULL, NULL},
    {MAP, K_DOWN, REQ_DOWN, NULL, NULL, NULL},
    {MAP, '\r', REQ_OPEN, "Enter", "text", "show the text at the cursor"},
    {MAP, 'l', REQ_LAYER, "l", "layer",
     "all layers; the heads of the layer under the cursor; every head of every layer"},
    {MAP, 'w', REQ_HISTORY, "w", "waterfall",
     "earlier states of this picture, newest at the bottom; Up and Down choose the layer"},
    {MAP, ' ', REQ_PLAY, "Space", "play", "play the conversation from its beginning"},
    {MAP, 'p', REQ_PAUSE, "p", "pause", "hold the picture"},
    {MAP, '+', REQ_ZOOM_IN, "+ -", "zoom", "show fewer or more positions around the cursor"},
    {MAP, '=', REQ_ZOOM_IN, NULL, NULL, NULL},
    {MAP, '-', REQ_ZOOM_OUT, NULL, NULL, NULL},
    {MAP, 'z', REQ_TALL, "z", NULL, "all rows on one page, or a line for each"},

    {TINT, K_LEFT, REQ_LEFT, "arrows", "move", "move the cursor: tokens and lines"},
    {TINT, K_RIGHT, REQ_RIGHT, NULL, NULL, NULL},
    {TINT, K_UP, REQ_UP, NULL, NULL, NULL},
    {TINT, K_DOWN, REQ_DOWN, NULL, NULL, NULL},
    {TINT, 'm', RUN(MAP), "m", "map", "the same place in the map; also Enter"},
    {TINT, '\r', REQ_OPEN, NULL, NULL, NULL},

    {MAP | TINT, 'n', REQ_GONE_AFTER, "n N", "evicted", "the next or previous run of evicted text"},
    {MAP | TINT, 'N', REQ_GONE_BEFORE, NULL, NULL, NULL},
    {MAP | TINT, '[', REQ_TURN_BEFORE, "[ ]", "turn", "the previous or next turn"},
    {MAP | TINT, ']', REQ_TURN_AFTER, NULL, NULL, NULL},

    {LIST, K_UP, REQ_UP, "arrows", "move", "choose a conversation"},
    {LIST, K_DOWN, REQ_DOWN, NULL, NULL, NULL},
    {LIST, '\r', REQ_OPEN, "Enter", "open", "open the conversation"},
    {LIST, '/', REQ_FIND, "/", "find", "search in names and all messages; also /find"},
    {LIST, 'n', RUN(NEW), "n", "new", "start a new conversation; also /new"},
    {LIST, 'r', RUN(RENAME), "r", "rename", "rename the conversation; also /rename"},
    {LIST, 't', RUN(TAG), "t", NULL,
     "change its tags; / and #TAG lists conversations with a tag; also /tag"},
    {LIST, 'd', RUN(DELETE), "d", "delete", "delete the conversation, after a question"},
    {LIST, 'u', RUN(RESTORE), "u", "undo", "restore the last deleted one; also /restore"},
    {LIST, 'x', RUN(DROP), "x", NULL,
     "delete the saved cache, keep the text, after a question; also /drop"},

    {READ, K_UP, REQ_UP, "arrows", "move", "the message before or after"},
    {READ, K_DOWN, REQ_DOWN, NULL, NULL, NULL},
    {READ, '/', REQ_FIND, "/", "search", "search in this conversation"},
    {READ, 'n', REQ_GONE_AFTER, "n N", "next", "the next or previous place that was found"},
    {READ, 'N', REQ_GONE_BEFORE, NULL, NULL, NULL},
    {READ, 'c', RUN(COPY), "c", "copy", "copy the message"},
    {READ, 'e', RUN(EDIT), "e", "edit", "change the message; the turns after it are deleted"},
    {READ, 'b', RUN(BRANCH), "b", "branch", "copy the conversation up to this turn"},
    {READ, 'r', RUN(RECALL), "r", "recall", "bring evicted text with its words back"},
    {READ, 'p', RUN(PIN), "p", "pin", "keep its turn in the cache; also /pin"},
    {READ, 'u', RUN(UNPIN), "u", NULL, "let its turn be evicted again; also /unpin"},
    {READ, 'F', RUN(FORGET), "F", NULL, "evict its turn so that it can't come back; also /forget"},
    {READ, 'm', RUN(MAP), "m", "map", "the message in the map"},
    {READ, 't', RUN(TINT), "t", NULL, "the message in the tint"},
    {READ, '\r', REQ_OPEN, "Enter", NULL, "back to the chat, at this message"},

    {PAGES, K_UP, REQ_UP, "arrows", "scroll", "scroll"},
    {PAGES, K_DOWN, REQ_DOWN, NULL, NULL, NULL},

    {OVERLAYS, 'q', REQ_BACK, "q", "back", "back to the chat"},
    {OVERLAYS, '\033', REQ_BACK, "Esc", NULL, "the same"},
    {OVERLAYS, CTRL('c'), REQ_BACK, NULL, NULL, NULL},

    {IN_ALL, CTRL('p'), REQ_PALETTE, "^P", "all",
     "everything that can be done, filtered by typing"},
    {IN_ALL, K_F1, RUN(HELP), "F1", "help", "this page; also /help, and ? on an empty message"},
    {OVERLAYS, '?', RUN(HELP), NULL, NULL, NULL},
    {IN_ALL, K_F1 + 1, RUN(LIST), "F2", "list", "saved conversations; also /list"},
    {IN_ALL, K_F1 + 2, RUN(MAP), "F3", "map", "which tokens are still in the cache; also /map"},
    {IN_ALL, K_F1 + 3, RUN(TINT), "F4", "tint",
     "the text, shaded by how much of it is kept; also /tint"},
    {IN_ALL, K_F1 + 9, RUN(QUIT), "F10", "quit", "leave; everything is saved; also /quit"},
    {IN_ALL, K_F1 + 7, RUN(STATS), "F8", "graphs",
     "memory, cache and speed over time; also /stats"},

    {IN_ALL, K_PAGE_UP, REQ_PAGE_UP, "PgUp", NULL, "a page up; the chat then stays there"},
    {IN_ALL, K_PAGE_DOWN, REQ_PAGE_DOWN, "PgDn", NULL, "a page down"},
    {IN_ALL, K_WHEEL_UP, REQ_UP, NULL, NULL, NULL},
    {IN_ALL, K_WHEEL_DOWN, REQ_DOWN, NULL, NULL, NULL},
    {CHAT, 'v' | K_ALT, REQ_PAGE_UP, NULL, NULL, NULL},
    {CHAT, CTRL('v'), REQ_PAGE_DOWN, NULL, NULL, NULL},
    {CHAT, K_UP | K_SHIFT, REQ_UP, "Shift-Up", NULL, "a line up"},
    {CHAT, K_DOWN | K_SHIFT, REQ_DOWN, "Shift-Down", NULL, "a line down"},
    {OVERLAYS, K_HOME, REQ_FIRST, "Home", NULL, "to the beginning"},
    {OVERLAYS, K_END, REQ_LAST, "End", NULL, "to the end"},

    {CHAT, CTRL('d'), REQ_EOF, "^D", NULL, "delete a character; on an empty message: leave"},
    {CHAT, K_LEFT, REQ_CHAR_LEFT, "Left", NULL, "a character left; also ^B"},
    {CHAT, CTRL('b'), REQ_CHAR_LEFT, NULL, NULL, NULL},
    {CHAT, K_RIGHT, REQ_CHAR_RIGHT, "Right", NULL, "a character right; also ^F"},
    {CHAT, CTRL('f'), REQ_CHAR_RIGHT, NULL, NULL, NULL},
    {CHAT, 'b' | K_ALT, REQ_WORD_LEFT, "Alt-b", NULL, "a word left; also Ctrl-Left"},
    {CHAT, K_LEFT | K_CTRL, REQ_WORD_LEFT, NULL, NULL, NULL},
    {CHAT, K_LEFT | K_ALT, REQ_WORD_LEFT, NULL, NULL, NULL},
    {CHAT, 'f' | K_ALT, REQ_WORD_RIGHT, "Alt-f", NULL, "a word right; also Ctrl-Right"},
    {CHAT, K_RIGHT | K_CTRL, REQ_WORD_RIGHT, NULL, NULL, NULL},
    {CHAT, K_RIGHT | K_ALT, REQ_WORD_RIGHT, NULL, NULL, NULL},
    {CHAT, CTRL('a'), REQ_LINE_START, "^A", NULL, "start of the line; also Home"},
    {CHAT, K_HOME, REQ_LINE_START, NULL, NULL, NULL},
    {CHAT, CTRL('e'), REQ_LINE_END, "^E", NULL,
     "end of the line; also End, which ends scrolling too"},
    {CHAT, K_END, REQ_LAST, NULL, NULL, NULL},
    {CHAT, '<' | K_ALT, REQ_TEXT_START, "Alt-<", NULL, "start of the message"},
    {CHAT, '>' | K_ALT, REQ_TEXT_END, "Alt->", NULL, "end of the message"},
    {CHAT, 127, REQ_RUBOUT, "Backspace", NULL, "delete the character before the cursor"},
    {CHAT, CTRL('h'), REQ_RUBOUT, NULL, NULL, NULL},
    {CHAT, K_DELETE, REQ_DELETE, "Delete", NULL, "delete the character at the cursor"},
    {CHAT, CTRL('w'), REQ_KILL_WORD_LEFT, "^W", NULL, "cut the word before the cursor"},
    {CHAT, 127 | K_ALT, REQ_KILL_WORD_LEFT, NULL, NULL, NULL},
    {CHAT, 'd' | K_ALT, REQ_KILL_WORD_RIGHT, "Alt-d", NULL, "cut the word after the cursor"},
    {CHAT, CTRL('u'), REQ_KILL_LINE_LEFT, "^U", NULL, "cut to the start of the line"},
    {CHAT, CTRL('k'), REQ_KILL_LINE_RIGHT, "^K", NULL, "cut to the end of the line"},
    {CHAT, CTRL('y'), REQ_YANK, "^Y", NULL, "insert the last cut text"},
    {CHAT, CTRL('_'), REQ_UNDO, "^_", NULL, "undo"},
    {CHAT, '_' | K_ALT, REQ_REDO, "Alt-_", NULL, "redo"},
    {CHAT, K_UP, REQ_HISTORY_OLDER, "Up", NULL,
     "line up; on the first: queued and earlier messages"},
    {CHAT, K_DOWN, REQ_HISTORY_NEWER, "Down", NULL, "line down; on the last: later messages"},
    {CHAT, CTRL('n'), REQ_HISTORY_NEWER, NULL, NULL, NULL},

    {IN_ALL, CTRL('l'), REQ_REDRAW, "^L", NULL, "draw the screen again"},
    {IN_ALL, CTRL('z'), REQ_SUSPEND, "^Z", NULL, "back to the shell; fg returns"},
    {0, 0, REQ_NONE, NULL, NULL, NULL},
};

int key_request_of(enum view view, uint32_t key)
{
    for (const struct binding *b = key_table; b->views; b++)
        if ((b->views & IN(view)) && b->key == key) return b->request;
    return REQ_NONE;
}
