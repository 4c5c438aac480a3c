/* keys: names of keys, and the one table of their functions. Hint bar, help screen and manual page
 * are made from it, so that every key is documented. */
#ifndef RETAIN_CLI_CONTROL_KEYS_H
#define RETAIN_CLI_CONTROL_KEYS_H

#include <stddef.h>
#include <stdint.h>

/* A key is a Unicode code point (controls below 32 included) or one of these, plus flags. */
enum {
    KEY_BASE = 0x110000,
    K_UP,
    K_DOWN,
    K_LEFT,
    K_RIGHT,
    K_HOME,
    K_END,
    K_PAGE_UP,
    K_PAGE_DOWN,
    K_INSERT,
    K_DELETE,
    K_BACK_TAB,
    K_F1,
    K_F12 = K_F1 + 11,
    K_WHEEL_UP, /* see input.h */
    K_WHEEL_DOWN,
    K_CLICK,            /* comes with a cell of the screen */
    K_PASTE,            /* comes with text */
    K_REPLY_SYNC,       /* the terminal supports synchronized output (mode 2026) */
    K_REPLY_STATUS,     /* it has processed everything up to the question */
    K_REPLY_BACKGROUND, /* comes with its background colour as text */
    K_FOCUS_IN,         /* its window came to the front */
    K_FOCUS_OUT,
    K_ALT = 1 << 24,
    K_CTRL = 1 << 25,
    K_SHIFT = 1 << 26,
    K_PREFIX = 1 << 27, /* Ctrl-X was pressed before it */
};

#define CTRL(c) ((c)&31)

struct key_event {
    uint32_t key;
    const char *text; /* of K_PASTE and K_REPLY_BACKGROUND; valid until the next event */
    size_t n;
    int x, y; /* of K_CLICK */
};

/* The views that a row of the table applies to: a bit set. */
enum view {
    VIEW_CHAT,
    VIEW_MAP,
    VIEW_TINT,
    VIEW_LIST,
    VIEW_HELP,
    VIEW_LOG,
    VIEW_DASH,
    VIEW_READ,
    VIEW_PALETTE,
    VIEWS
};
#define IN(view)    (1u << (view))
#define IN_ALL      ((1u << VIEWS) - 1)
#define IN_PAGES    (IN(VIEW_HELP) | IN(VIEW_LOG))
#define IN_OVERLAYS (IN_ALL & ~IN(VIEW_CHAT) & ~IN(VIEW_PALETTE))

enum key_request {
    REQ_NONE,
    /* everywhere */
    REQ_PALETTE,
    REQ_SUSPEND,
    REQ_REDRAW,
    REQ_BACK,
    /* moving, in every view */
    REQ_UP,
    REQ_DOWN,
    REQ_LEFT,
    REQ_RIGHT,
    REQ_PAGE_UP,
    REQ_PAGE_DOWN,
    REQ_FIRST,
    REQ_LAST,
    /* chat: sending and editing */
    REQ_SEND,
    REQ_NEWLINE,
    REQ_INTERRUPT,
    REQ_EOF,
    REQ_CHAR_LEFT,
    REQ_CHAR_RIGHT,
    REQ_WORD_LEFT,
    REQ_WORD_RIGHT,
    REQ_LINE_START,
    REQ_LINE_END,
    REQ_TEXT_START,
    REQ_TEXT_END,
    REQ_RUBOUT,
    REQ_DELETE,
    REQ_KILL_WORD_LEFT,
    REQ_KILL_WORD_RIGHT,
    REQ_KILL_LINE_LEFT,
    REQ_KILL_LINE_RIGHT,
    REQ_YANK,
    REQ_UNDO,
    REQ_REDO,
    REQ_HISTORY_OLDER,
    REQ_HISTORY_NEWER,
    REQ_HISTORY_SEARCH,
    REQ_COMPLETE,
    REQ_UNFOLD,
    REQ_FADING,
    REQ_READ_FIND,
    /* map and tint */
    REQ_LAYER,
    REQ_HISTORY,
    REQ_ZOOM_IN,
    REQ_ZOOM_OUT,
    REQ_TALL,
    REQ_GONE_BEFORE,
    REQ_GONE_AFTER,
    REQ_TURN_BEFORE,
    REQ_TURN_AFTER,
    REQ_PAUSE,
    REQ_PLAY,
    /* list and map */
    REQ_OPEN,
    REQ_FIND,
    REQ_COMMANDS, /* the first REQ_RUN */
};
/* The request of a slash command. A view may run it on the row under its cursor. */
#define REQ_RUN(command) (REQ_COMMANDS + (int)(command))

struct binding {
    unsigned views;
    uint32_t key;
    int request;       /* enum key_request, or REQ_RUN */
    const char *label; /* as shown on screen; NULL: another row shows this request's key */
    const char *hint;  /* one word for the hint bar, or NULL */
    const char *help;
};
extern const struct binding key_table[]; /* ends with views 0 */

/* The request of a key in a view: a value of enum key_request, or REQ_RUN of a command. */
int key_request_of(enum view view, uint32_t key);

#endif
