#include "tui/chat/pace.h"

#include <time.h>

#include "base/system.h"
#include "cli/options/options.h"

enum { POLL_NS = 20000000 };

int pace_rate(const struct options *o)
{
    if (o->chat.pace >= 0) return o->chat.pace;
    return o->engine.model ? 0 : PACE_DEMO;
}

void pace_wait(struct pace *p, int rate, bool (*stop)(void *ctx), void *ctx)
{
    int64_t now = system_clock_ns();
    if (rate <= 0) return;
    if (p->due_ns < now) p->due_ns = now;
    p->due_ns += 1000000000 / rate;
    for (; now < p->due_ns && !stop(ctx); now = system_clock_ns()) {
        int64_t ns = p->due_ns - now < POLL_NS ? p->due_ns - now : POLL_NS;
        nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
    }
}
