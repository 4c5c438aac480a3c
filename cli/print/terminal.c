#include "cli/print/terminal.h"

#include <stdlib.h>
#include <string.h>

bool terminal_is_polite(void)
{
    static const char *const polite[] = {"xterm", "tmux",  "screen",  "rxvt", "alacritty", "foot",
                                         "st",    "kitty", "wezterm", "vte",  "ghostty"};
    const char *name = getenv("TERM");
    for (size_t i = 0; name && i < sizeof polite / sizeof polite[0]; i++)
        if (strncmp(name, polite[i], strlen(polite[i])) == 0) return true;
    return false;
}
