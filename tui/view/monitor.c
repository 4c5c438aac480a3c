/* monitor: memory, speed and the machine's sensors. Unknown values are n/a, never 0; an unknown
 * temperature or power is left out, because its n/a would have no label. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/print/num.h"
#include "tui/chat/app.h"
#include "tui/view/bars.h"

enum { WIDE = 56 }; /* columns of a pane with room for all values */

static const struct sensor_part *part_in_use(const struct app *a, const char **name)
{
    bool gpu = a->sensors.has_gpu && a->have_stats && strncmp(a->stats.device, "cpu", 3) != 0;
    *name = gpu ? "gpu" : "cpu";
    return gpu ? &a->sensors.gpu : &a->sensors.cpu;
}

static const char *put_number(double value, const char *unit, char out[NUM_MAX])
{
    if (isnan(value))
        snprintf(out, NUM_MAX, "n/a");
    else
        snprintf(out, NUM_MAX, "%.0f%s", value, unit);
    return out;
}

static const char *put_power(const struct sensor_part *p, char out[NUM_MAX])
{
    if (isnan(p->watt) || isnan(p->watt_max)) return put_number(p->watt, "W", out);
    snprintf(out, NUM_MAX, "%.0f/%.0fW", p->watt, p->watt_max);
    return out;
}

static const char *put_swap(const struct app *a, char out[NUM_MAX])
{
    double bytes = a->sensors.swap_bytes;
    if (bytes == 0) return "0";
    return num_bytes(isnan(bytes) ? -1 : (int64_t)bytes, out);
}

void bar_sensors(struct app *a, struct pane p, int y)
{
    const char *name;
    char b[4][NUM_MAX];
    const struct sensor_part *part = part_in_use(a, &name);
    const struct {
        const char *label, *value;
    } cells[] = {
        {"load ", put_number(part->load, "%", b[0])},
        {"", put_number(part->celsius, "C", b[1])},
        {"", put_power(part, b[2])},
        {"swap ", put_swap(a, b[3])},
        {"throttle ", part->throttle[0] ? part->throttle : "n/a"},
    };
    int x = pane_printf(p, 0, y, ATTR_DIM, p.w < 90 ? "%s  " : "%s     ", name);
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        if (!cells[i].label[0] && i > 0 && !strcmp(cells[i].value, "n/a")) continue;
        int width = (int)(strlen(cells[i].label) + strlen(cells[i].value));
        if (x + width > p.w) break;
        x = pane_puts(p, x, y, ATTR_DIM, cells[i].label);
        x = pane_puts(p, x, y, ATTR_TEXT, cells[i].value) + 2;
    }
}

void monitor_draw_pane(struct app *a, struct pane p)
{
    const struct session_stats *st = &a->stats;
    const char *name;
    const struct sensor_part *part = part_in_use(a, &name);
    char b[4][NUM_MAX];
    pane_puts(p, 0, 0, ATTR_BOLD, "MEMORY");
    int x =
        pane_printf(p, 8, 0, ATTR_TEXT, "process %s  peak %s", num_bytes(st->process_bytes, b[0]),
                    num_bytes(st->process_peak_bytes, b[1]));
    if (p.w >= WIDE) pane_printf(p, x, 0, ATTR_TEXT, "  of %s", num_bytes(st->machine_bytes, b[2]));
    pane_printf(p, 2, 1, ATTR_TEXT, "weights %s  scratch %s", num_bytes(st->weights_bytes, b[0]),
                num_bytes(st->scratch_bytes, b[1]));
    x = pane_printf(p, 2, 2, ATTR_TEXT, "cache %s taken, %s in use",
                    num_bytes(st->cache_bytes, b[0]), num_bytes(st->cache_used_bytes, b[1]));
    if (st->state_bytes)
        pane_printf(p, x, 2, ATTR_TEXT, "  state %s", num_bytes(st->state_bytes, b[2]));
    pane_puts(p, 0, 3, ATTR_BOLD, "SPEED");
    pane_printf(p, 8, 3, ATTR_TEXT, "answer %s  reading %s tok/s", num_rate(st->decode_tok_s, b[0]),
                num_rate(st->prefill_tok_s, b[1]));
    pane_puts(p, 0, 4, ATTR_BOLD, name[0] == 'g' ? "GPU" : "CPU");
    x = pane_puts(p, 8, 4, ATTR_TEXT, put_number(part->load, "%", b[0]));
    if (!isnan(part->celsius))
        x = pane_printf(p, x, 4, ATTR_TEXT, "  %s", put_number(part->celsius, "C", b[2]));
    if (!isnan(part->watt)) x = pane_printf(p, x, 4, ATTR_TEXT, "  %s", put_power(part, b[3]));
    if (!isnan(part->memory_bytes)) /* memory in use by all programs on the device */
        pane_printf(p, x, 4, ATTR_TEXT, "  mem %s", num_bytes((int64_t)part->memory_bytes, b[0]));
    pane_puts(p, 0, 5, ATTR_BOLD, "CACHE");
    pane_cut(p, 5,
             pane_printf(p, 8, 5, ATTR_TEXT, "%s, budget %d on %.*s", st->policy, st->budget,
                         (int)strcspn(st->device, " "), st->device));
    pane_puts(p, 0, 6, ATTR_BOLD, "EVICTED");
    pane_printf(p, 8, 6, ATTR_TEXT, "%s of %s units",
                num_exact(st->units_seen - st->units_kept, b[0]), num_exact(st->units_seen, b[1]));
    if (p.h < 8) return;
    int half = (p.w - 16) / 2;
    pane_puts(p, 0, 7, ATTR_DIM, "tok/s");
    dash_sparkline(a, pane_sub(p, 8, 7, half, 1), TRACE_SPEED);
    pane_puts(p, 9 + half, 7, ATTR_DIM, "kept");
    dash_sparkline(a, pane_sub(p, 14 + half, 7, half, 1), TRACE_KEPT);
}
