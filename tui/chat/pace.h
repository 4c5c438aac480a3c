/* pace: slows an answer down to a speed that can be read. The demo model answers thousands of
 * tokens a second, so that nothing of it could be watched. */
#ifndef RETAIN_TUI_CHAT_PACE_H
#define RETAIN_TUI_CHAT_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct options;

enum { PACE_DEMO = 40 }; /* tokens a second of the demo model, unless --pace says otherwise */

struct pace {
    int64_t due_ns; /* when the next piece may follow */
};

/* Tokens a second; 0 = as fast as they come. */
int pace_rate(const struct options *o);

/* Call after each piece of an answer: sleeps until the next one is due, or until stop(ctx) says
 * true, which is asked every 20 ms. A model that is slower than `rate` is not slowed down further.
 */
void pace_wait(struct pace *p, int rate, bool (*stop)(void *ctx), void *ctx);

#endif
