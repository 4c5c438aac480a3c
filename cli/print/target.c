#include "cli/print/target.h"

#include <string.h>
#include <unistd.h>

#if defined __aarch64__ && defined TARGET_NEEDS
#include <sys/auxv.h>

/* As in <asm/hwcap.h>, whose older versions lack the last. */
enum { ATOMICS = 1 << 8, FP16 = 1 << 10, DOTPROD = 1 << 20, I8MM_2 = 1 << 13 };

static const struct {
    const char *name;
    unsigned long bit;
    int word; /* of the two that the kernel gives */
} features[] = {
    {"atomics", ATOMICS, AT_HWCAP},
    {"fp16", FP16, AT_HWCAP},
    {"dotprod", DOTPROD, AT_HWCAP},
    {"i8mm", I8MM_2, AT_HWCAP2},
};

/* No function that was compiled for the target is called before this. */
static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(1);
}

bool target_runs_here(void)
{
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        if (!strstr(TARGET_NEEDS, features[i].name) ||
            getauxval((unsigned long)features[i].word) & features[i].bit)
            continue;
        say("retain: this build needs a processor with ");
        say(TARGET_NEEDS);
        say("; this one has no ");
        say(features[i].name);
        say(": take the build for aarch64\n");
        return false;
    }
    return true;
}

#else

bool target_runs_here(void)
{
    return true;
}

#endif
