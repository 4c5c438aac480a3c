#include "emu.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cuda/args.h"
#include "kernels/kernels.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTES ((size_t)512 << 10)
#else
#define STACK_BYTES ((size_t)128 << 10)
#endif

enum { WARP = 32, THREADS_MAX = 1024, COPIES_MAX = 256 };
enum { BLOCKS_MAX = 16, POLLS_MAX = 100000 }; /* of a cooperative launch */
enum state { AT_WARP, AT_BARRIER, AT_POLL, DONE };

struct copy { /* a pending cp.async */
    void *dst;
    const void *src;
    int bytes, src_bytes, group;
};

struct fiber {
    void *sp; /* saved stack pointer */
    char *stack;
    enum state state; /* the last time that it stopped */
    struct emu_place at;
    struct copy *copies; /* [COPIES_MAX], after the stack */
    int n_copies, group; /* group: the one being filled */
    void *fake_stack;    /* of the address sanitizer */
};

struct warp {
    uint32_t ready; /* lanes that can run */
    uint32_t here;  /* lanes that wait for an operation: */
    enum emu_op op;
    struct emu_place at;
    const uint32_t *in[WARP]; /* in the stacks of the lanes */
    uint32_t *out[WARP];
};

struct block { /* one that has begun */
    struct fiber fibers[THREADS_MAX];
    struct warp warps[THREADS_MAX / WARP];
    char *memory, *shared; /* shared: 16 bytes further, aligned to 16 and to no more */
    int at[3];
    bool running;
};

static struct machine {
    struct block *blocks[BLOCKS_MAX];
    struct block *now; /* the current one; these are parts of it: */
    struct fiber *fibers;
    struct warp *warps;
    const struct emu_launch *at;
    emu_body *body;
    const void *args;
    int *block;
    unsigned current;
    struct { /* of a warp: its lanes run in a random order */
        struct warp *warp;
        unsigned first, lane, step, n;
    } turn;
    char *shared;
    uint64_t rng;
    void *scheduler_sp, *scheduler_fake;
    const void *scheduler_stack;
    size_t scheduler_bytes;
    char error[512];
    float half[65536];
    bool failed, ready;
} gpu;

static uint32_t random_below(uint32_t n)
{
    uint64_t z = gpu.rng += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

/* ---- fibers ---------------------------------------------------------------------------------- */

/* Saves the registers that a call must preserve, swaps stacks, restores. On x86_64 without a call
 * and a return: the processor would predict that each return leads back to its own call, and lanes
 * that return from the same line are predicted right. */
#if defined __x86_64__
#define VECTORS(x)                                                                           \
#x "0", #x "1", #x "2", #x "3", #x "4", #x "5", #x "6", #x "7", #x "8", #x "9", #x "10", \
        #x "11", #x "12", #x "13", #x "14", #x "15"
static inline __attribute__((always_inline)) void emu_switch(void **save, void *load)
{
    __asm__ volatile("leaq -128(%%rsp),%%rsp\n" /* below the red zone */
                     "pushq %%rbp\npushq %%rbx\nleaq 1f(%%rip),%%rax\npushq %%rax\n"
                     "movq %%rsp,(%%rdi)\nmovq %%rsi,%%rsp\n"
                     "popq %%rax\njmp *%%rax\n"
                     "1:popq %%rbx\npopq %%rbp\nleaq 128(%%rsp),%%rsp\n"
                     : "+D"(save), "+S"(load)
                     :
                     : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                       "memory", "cc", VECTORS(xmm));
}
enum { ENTRY_WORD = 0, FRAME_WORDS = 2 };
#elif defined __aarch64__
void emu_switch(void **save, void *load);
__asm__(".text\n.globl emu_switch\n.type emu_switch,%function\nemu_switch:\n"
        "sub sp,sp,#160\n"
        "stp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
        "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\n"
        "stp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
        "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\n"
        "ldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\nadd sp,sp,#160\nret\n"
        ".size emu_switch,.-emu_switch\n");
enum { ENTRY_WORD = 11, FRAME_WORDS = 20 };
#else
#error "emu.c knows how to switch stacks on x86_64 and aarch64"
#endif

/* Chooses the next runnable lane of the warp whose turn it is; false: none is left. */
static inline bool next_lane(void)
{
    while (gpu.turn.n++ < WARP) {
        const unsigned lane = gpu.turn.lane = (gpu.turn.lane + gpu.turn.step) % WARP;
        if (!(gpu.turn.warp->ready >> lane & 1)) continue;
        gpu.current = gpu.turn.first + lane;
        return true;
    }
    return false;
}

static void to_scheduler(bool last)
{
    struct fiber *f = &gpu.fibers[gpu.current];
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(last ? NULL : &f->fake_stack, gpu.scheduler_stack,
                                   gpu.scheduler_bytes);
#else
#endif
    emu_switch(&f->sp, gpu.scheduler_sp);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(f->fake_stack, NULL, NULL);
#endif
}

static void to_fiber(unsigned i)
{
    struct fiber *f = &gpu.fibers[i];
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&gpu.scheduler_fake, f->stack, STACK_BYTES);
#endif
    emu_switch(&gpu.scheduler_sp, f->sp);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(gpu.scheduler_fake, NULL, NULL);
#endif
}

/* Leaves this fiber to the next lane of its warp, or to the scheduler. */
static inline void wait_as(enum state state, struct emu_place at)
{
    struct fiber *f = &gpu.fibers[gpu.current];
    f->state = state;
    f->at = at;
    gpu.turn.warp->ready &= ~(1u << gpu.current % WARP);
#ifdef __SANITIZE_ADDRESS__
    to_scheduler(state == DONE);
#else
    emu_switch(&f->sp, next_lane() ? gpu.fibers[gpu.current].sp : gpu.scheduler_sp);
#endif
}

static void land(struct fiber *f, int before_group);

static void fiber_main(void)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(NULL, &gpu.scheduler_stack, &gpu.scheduler_bytes);
#endif
    gpu.body(gpu.args);
    struct fiber *f = &gpu.fibers[gpu.current];
    land(f, f->group + 1);
    wait_as(DONE, (struct emu_place){0});
    abort(); /* a finished fiber is never resumed */
}

static void fiber_prepare(struct fiber *f)
{
    if (!f->stack) {
        f->stack = mmap(NULL, STACK_BYTES + COPIES_MAX * sizeof *f->copies, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (f->stack == MAP_FAILED) abort();
        f->copies = (struct copy *)(void *)(f->stack + STACK_BYTES);
    }
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(f->stack, STACK_BYTES); /* an abandoned fiber's frames */
#endif
    /* Other lines of the first-level cache than the 31 other lanes. */
    const size_t line = (size_t)(f - gpu.fibers) % WARP * 128;
    void **frame = (void **)(f->stack + STACK_BYTES - line) - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof *frame);
    void (*entry)(void) = fiber_main;
    memcpy(&frame[ENTRY_WORD], &entry, sizeof entry);
    f->sp = frame;
    f->fake_stack = NULL;
    f->n_copies = f->group = 0;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Keeps the first message and leaves the block. */
__attribute__((format(printf, 1, 2), cold)) static void fail(const char *format, ...)
{
    char text[300];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!gpu.failed)
        snprintf(gpu.error, sizeof gpu.error, "block (%d,%d,%d) thread %u, seed %llu: %s",
                 gpu.block[0], gpu.block[1], gpu.block[2], gpu.current,
                 (unsigned long long)gpu.at->seed, text);
    gpu.failed = true;
    to_scheduler(false);
}

static const char *base(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "?";
}

/* ---- operations of a thread ------------------------------------------------------------------ */

int emu_thread(void)
{
    return (int)gpu.current;
}

int emu_block(int axis)
{
    return gpu.block[axis];
}

int emu_grid(int axis)
{
    return gpu.at->grid[axis];
}

char *emu_shared(void)
{
    return gpu.shared;
}

void emu_barrier(struct emu_place at)
{
    wait_as(AT_BARRIER, at);
}

void emu_poll(struct emu_place at)
{
    if (!gpu.at->cooperative)
        fail("%s:%d: waits for another block, which may not run", base(at.file), at.line);
    wait_as(AT_POLL, at);
}

static bool in_shared(const void *p, int bytes)
{
    const char *c = p;
    return c >= gpu.shared && c + bytes <= gpu.shared + gpu.at->shared_bytes;
}

void emu_check_aligned(const void *p, int align, struct emu_place at)
{
    if ((uintptr_t)p % (uintptr_t)align)
        fail("%s:%d: %p is not %d-byte aligned", base(at.file), at.line, p, align);
}

char *emu_shared_at(int64_t offset, int bytes, struct emu_place at)
{
    if (offset < 0 || offset + bytes > (int64_t)gpu.at->shared_bytes)
        fail("%s:%d: %d bytes at %lld, beyond shared memory", base(at.file), at.line, bytes,
             (long long)offset);
    char *p = gpu.shared + offset;
    emu_check_aligned(p, bytes, at);
    return p;
}

void emu_fail(const char *what, struct emu_place at)
{
    fail("%s:%d: %s", base(at.file), at.line, what);
}

void emu_cp_async(void *dst, const void *src, int bytes, int src_bytes, struct emu_place at)
{
    struct fiber *f = &gpu.fibers[gpu.current];
    emu_check_aligned(dst, bytes, at);
    if (src_bytes) emu_check_aligned(src, bytes, at);
    if (!in_shared(dst, bytes))
        fail("%s:%d: cp.async beyond shared memory", base(at.file), at.line);
    if (src_bytes < 0 || src_bytes > bytes)
        fail("%s:%d: cp.async of %d bytes", base(at.file), at.line, src_bytes);
    if (f->n_copies == COPIES_MAX) fail("%s:%d: too many copies", base(at.file), at.line);
    f->copies[f->n_copies++] = (struct copy){dst, src, bytes, src_bytes, f->group};
    if (random_below(4)) memset(dst, 0xff, (size_t)bytes); /* NaN, or else the old bytes */
}

void emu_cp_commit(void)
{
    gpu.fibers[gpu.current].group++;
}

static void land(struct fiber *f, int before_group)
{
    int left = 0;
    for (int i = 0; i < f->n_copies; i++) {
        struct copy c = f->copies[i];
        if (c.group >= before_group) {
            f->copies[left++] = c;
            continue;
        }
        if (c.src_bytes) memcpy(c.dst, c.src, (size_t)c.src_bytes);
        memset((char *)c.dst + c.src_bytes, 0, (size_t)(c.bytes - c.src_bytes));
    }
    f->n_copies = left;
}

void emu_cp_wait(int pending)
{
    struct fiber *f = &gpu.fibers[gpu.current];
    land(f, f->group - pending);
}

float emu_half_float(uint16_t h)
{
    return gpu.ready ? gpu.half[h] : kn_float_from_half(h);
}

uint16_t emu_half_bits(float x)
{
    return kn_half_from_float(x);
}

/* ---- warp operations: lane = 4 * g + t ------------------------------------------------------- */

/* Loops over numbers, compiled for the vectors that the processor has. */
#if defined __x86_64__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

typedef double row_of_8 __attribute__((vector_size(8 * sizeof(double))));

WIDE static void multiply_16(row_of_8 d[16], double a[16][16], row_of_8 b[16])
{
    for (int i = 0; i < 16; i++) {
        row_of_8 sum = d[i];
        for (int k = 0; k < 16; k++) sum += a[i][k] * b[k];
        d[i] = sum;
    }
}

WIDE static void multiply_8(int32_t d[16][8], int16_t a[16][32], int16_t b[8][32])
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 32; k++) d[i][j] += a[i][k] * b[j][k];
}

static double number_16(uint32_t bits, bool bf16)
{
    return (double)(bf16 ? kn_float_from_bits(bits << 16) : gpu.half[bits & 0xffff]);
}

/* A: register r holds row g + 8 (r & 1), columns 2t + 8 (r >> 1) and the next.
 * B: register r holds rows 2t + 8r and the next of column g. C: as D = row g + 8 (r >> 1), column
 * 2t + (r & 1), or as halves, rounded once: register r holds columns 2t and 2t + 1 of row g + 8r.
 */
static void mma_16(struct warp *w, bool bf16, bool halves)
{
    static double a[16][16];
    static row_of_8 b[16], d[16];
    for (int lane = 0; lane < WARP; lane++) {
        int g = lane / 4, t = lane % 4;
        const uint32_t *in = w->in[lane];
        for (int r = 0; r < 4; r++) {
            double *at = &a[g + 8 * (r & 1)][2 * t + 8 * (r >> 1)];
            at[0] = number_16(in[r], bf16);
            at[1] = number_16(in[r] >> 16, bf16);
            d[g + 8 * (r >> 1)][2 * t + (r & 1)] =
                halves ? number_16(in[6 + r / 2] >> 16 * (r % 2), false)
                       : (double)kn_float_from_bits(in[6 + r]);
        }
        for (int r = 0; r < 2; r++) {
            b[2 * t + 8 * r][g] = number_16(in[4 + r], bf16);
            b[2 * t + 8 * r + 1][g] = number_16(in[4 + r] >> 16, bf16);
        }
    }
    multiply_16(d, a, b);
    for (int lane = 0; lane < WARP; lane++)
        for (int r = 0; r < 4; r++) {
            const float x = (float)d[lane / 4 + 8 * (r >> 1)][2 * (lane % 4) + (r & 1)];
            uint32_t *out = w->out[lane];
            if (!halves)
                out[r] = kn_bits_from_float(x);
            else if (r % 2 == 0)
                out[r / 2] = emu_half_bits(x);
            else
                out[r / 2] |= (uint32_t)emu_half_bits(x) << 16;
        }
}

/* A: register r holds row g + 8 (r & 1), columns 4t + 16 (r >> 1) and the next three.
 * B: register r holds rows 4t + 16r and the next three of column g. C and D as above. */
static void mma_s8(struct warp *w, bool a_unsigned)
{
    static int16_t a[16][32], b[8][32];
    static int32_t d[16][8];
    for (int lane = 0; lane < WARP; lane++) {
        int g = lane / 4, t = lane % 4;
        const uint32_t *in = w->in[lane];
        for (int r = 0; r < 4; r++) {
            for (int i = 0; i < 4; i++) {
                uint8_t byte = (uint8_t)(in[r] >> 8 * i);
                a[g + 8 * (r & 1)][4 * t + 16 * (r >> 1) + i] = a_unsigned ? byte : (int8_t)byte;
            }
            d[g + 8 * (r >> 1)][2 * t + (r & 1)] = (int32_t)in[6 + r];
        }
        for (int r = 0; r < 2; r++)
            for (int i = 0; i < 4; i++) b[g][4 * t + 16 * r + i] = (int8_t)(in[4 + r] >> 8 * i);
    }
    multiply_8(d, a, b);
    for (int lane = 0; lane < WARP; lane++)
        for (int r = 0; r < 4; r++)
            w->out[lane][r] = (uint32_t)d[lane / 4 + 8 * (r >> 1)][2 * (lane % 4) + (r & 1)];
}

/* A lane holds row g, columns 2t and 2t + 1; it gets the same place of the transposed matrix. */
static void transpose8(uint16_t m[8][8], uint32_t *const *out, int r, bool transposed)
{
    for (int lane = 0; lane < WARP; lane++) {
        int g = lane / 4, t = lane % 4;
        uint32_t lo = transposed ? m[2 * t][g] : m[g][2 * t];
        uint32_t hi = transposed ? m[2 * t + 1][g] : m[g][2 * t + 1];
        out[lane][r] = lo | hi << 16;
    }
}

static void movmatrix(struct warp *w)
{
    uint16_t m[8][8];
    for (int lane = 0; lane < WARP; lane++) {
        m[lane / 4][2 * (lane % 4)] = (uint16_t)w->in[lane][0];
        m[lane / 4][2 * (lane % 4) + 1] = (uint16_t)(w->in[lane][0] >> 16);
    }
    transpose8(m, w->out, 0, true);
}

/* Lanes 8r .. 8r + 7 give the addresses of the eight 16-byte rows of matrix r. */
static void ldmatrix(struct warp *w, bool transposed)
{
    for (int r = 0; r < 4; r++) {
        uint16_t m[8][8];
        for (int row = 0; row < 8; row++) {
            const char *p;
            memcpy(&p, w->in[8 * r + row], sizeof p);
            emu_check_aligned(p, 16, w->at);
            if (!in_shared(p, 16))
                fail("%s:%d: ldmatrix beyond shared memory", base(w->at.file), w->at.line);
            memcpy(m[row], p, 16);
        }
        transpose8(m, w->out, r, transposed);
    }
}

static void shuffle(struct warp *w, bool is_xor)
{
    for (int lane = 0; lane < WARP; lane++) {
        uint32_t from = is_xor ? (uint32_t)lane ^ w->in[lane][1] : w->in[lane][1];
        if (from >= WARP) fail("%s:%d: shuffle from lane %u", base(w->at.file), w->at.line, from);
        w->out[lane][0] = w->in[from][0];
    }
}

static __attribute__((noinline)) void perform(struct warp *w)
{
    uint32_t bits = 0;
    switch (w->op) {
    case EMU_SHFL_XOR: shuffle(w, true); break;
    case EMU_SHFL: shuffle(w, false); break;
    case EMU_BALLOT:
        for (int lane = 0; lane < WARP; lane++) bits |= (uint32_t)(w->in[lane][0] != 0) << lane;
        for (int lane = 0; lane < WARP; lane++) w->out[lane][0] = bits;
        break;
    case EMU_SYNC: break;
    case EMU_MMA_F16: mma_16(w, false, false); break;
    case EMU_MMA_BF16: mma_16(w, true, false); break;
    case EMU_MMA_HALVES: mma_16(w, false, true); break;
    case EMU_MMA_S8: mma_s8(w, false); break;
    case EMU_MMA_U8S8: mma_s8(w, true); break;
    case EMU_MOVMATRIX: movmatrix(w); break;
    case EMU_LDMATRIX: ldmatrix(w, false); break;
    case EMU_LDMATRIX_T: ldmatrix(w, true); break;
    }
}

void emu_warp(enum emu_op op, uint32_t mask, const uint32_t *in, uint32_t *out, struct emu_place at)
{
    const unsigned lane = gpu.current % WARP;
    struct warp *w = gpu.turn.warp;
    if (mask != 0xffffffffu) fail("%s:%d: lane mask %08x", base(at.file), at.line, mask);
    if (w->here && (w->op != op || w->at.line != at.line ||
                    (w->at.file != at.file && strcmp(w->at.file, at.file) != 0)))
        fail("%s:%d: a divergent warp: other lanes are at %s:%d", base(at.file), at.line,
             base(w->at.file), w->at.line);
    w->op = op;
    w->at = at;
    w->in[lane] = in;
    w->out[lane] = out;
    w->here |= 1u << lane;
    if (w->here == 0xffffffffu) {
        perform(w);
        w->here = 0;
        w->ready = 0xffffffffu;
    } else {
        wait_as(AT_WARP, at);
    }
}

/* ---- the scheduler --------------------------------------------------------------------------- */

/* Runs every runnable lane of a warp, in a random order; false when there was none. */
static bool run_warp(int warp)
{
    bool ran = false;
    gpu.turn.warp = &gpu.warps[warp];
    if (!gpu.turn.warp->ready) return false;
    gpu.turn.first = (unsigned)warp * WARP;
    gpu.turn.lane = random_below(WARP);
    gpu.turn.step = 2 * random_below(16) + 1;
    for (gpu.turn.n = 0; !gpu.failed && next_lane(); ran = true) to_fiber(gpu.current);
    return ran;
}

static int count(enum state s)
{
    int n = 0;
    for (int i = 0; i < gpu.at->threads; i++) n += gpu.fibers[i].state == s;
    return n;
}

static void stuck(const char *what)
{
    char text[400];
    int used = snprintf(text, sizeof text, "%s:", what);
    const char *names[] = {"in a warp operation", "at a barrier", "polling", "done"};
    const struct fiber *last = NULL;
    for (int i = 0; i < gpu.at->threads && used < (int)sizeof text - 80; i++) {
        const struct fiber *f = &gpu.fibers[i];
        if (last && last->state == f->state && (f->state == DONE || last->at.line == f->at.line))
            continue;
        last = f;
        used +=
            snprintf(text + used, sizeof text - (size_t)used, " thread %d %s", i, names[f->state]);
        if (f->state != DONE)
            used += snprintf(text + used, sizeof text - (size_t)used, " %s:%d", base(f->at.file),
                             f->at.line);
        used += snprintf(text + used, sizeof text - (size_t)used, ";");
    }
    snprintf(gpu.error, sizeof gpu.error, "block (%d,%d,%d), seed %llu: %s", gpu.block[0],
             gpu.block[1], gpu.block[2], (unsigned long long)gpu.at->seed, text);
    gpu.failed = true;
}

/* No lane can run: either all wait at one barrier, or this is an error. */
static bool open_barrier(void)
{
    int n = gpu.at->threads;
    if (count(DONE) == n) return false;
    if (count(AT_BARRIER) != n) {
        stuck(count(AT_BARRIER) ? "divergent barrier" : "deadlock");
        return false;
    }
    for (int i = 1; i < n; i++)
        if (gpu.fibers[i].at.line != gpu.fibers[0].at.line) {
            stuck("divergent barrier");
            return false;
        }
    for (int w = 0; w < n / WARP; w++) gpu.warps[w].ready = 0xffffffffu;
    return true;
}

/* Makes a block the current one. */
static void enter_block(struct block *b)
{
    gpu.now = b;
    gpu.fibers = b->fibers;
    gpu.warps = b->warps;
    gpu.shared = b->shared;
    gpu.block = b->at;
}

/* Begins block number i in a free place. */
static void begin_block(int i)
{
    int slot = 0;
    while (gpu.blocks[slot] && gpu.blocks[slot]->running) slot++;
    if (!gpu.blocks[slot]) gpu.blocks[slot] = calloc(1, sizeof *gpu.blocks[slot]);
    struct block *b = gpu.blocks[slot];
    if (!b || posix_memalign((void **)&b->memory, 64, gpu.at->shared_bytes + 16)) abort();
    b->running = true;
    b->shared = b->memory + 16;
    b->at[0] = i % gpu.at->grid[0];
    b->at[1] = i / gpu.at->grid[0] % gpu.at->grid[1];
    b->at[2] = i / gpu.at->grid[0] / gpu.at->grid[1];
    enter_block(b);
    memset(gpu.shared, 0xff, gpu.at->shared_bytes);
    for (int t = 0; t < gpu.at->threads; t++) fiber_prepare(&gpu.fibers[t]);
    for (int w = 0; w < gpu.at->threads / WARP; w++)
        gpu.warps[w].ready = 0xffffffffu, gpu.warps[w].here = 0;
}

static void end_block(struct block *b)
{
    free(b->memory);
    b->running = false;
}

/* Whether a thread waits for another block. */
static bool polls(void)
{
    return count(AT_POLL) > 0;
}

/* Runs the current block to its end, or until it waits for another one. */
static void run_block(void)
{
    int n_warps = gpu.at->threads / WARP;
    for (int i = 0; i < gpu.at->threads; i++)
        if (gpu.fibers[i].state == AT_POLL) gpu.warps[i / WARP].ready |= 1u << i % WARP;
    do {
        int idle = 0, warp = (int)random_below((uint32_t)n_warps);
        while (idle < n_warps && !gpu.failed) {
            /* mostly continues with the same warp, so that warps drift far apart */
            if (run_warp(warp)) {
                idle = 0;
                if (random_below(8)) continue;
            } else {
                idle++;
            }
            warp = (warp + 1) % n_warps;
        }
    } while (!gpu.failed && !polls() && open_barrier());
}

/* Runs blocks that wait for each other, in a random order, until all have ended. */
static void run_waiting(void)
{
    for (int n = 0, slot, left; !gpu.failed; n++) {
        for (slot = left = 0; slot < BLOCKS_MAX; slot++)
            left += gpu.blocks[slot] && gpu.blocks[slot]->running;
        if (!left) return;
        do slot = (int)random_below(BLOCKS_MAX);
        while (!gpu.blocks[slot] || !gpu.blocks[slot]->running);
        enter_block(gpu.blocks[slot]);
        if (n == POLLS_MAX) stuck("blocks wait for each other");
        if (!gpu.failed) run_block();
        if (!gpu.failed && !polls()) end_block(gpu.blocks[slot]);
    }
    for (int i = 0; i < BLOCKS_MAX; i++)
        if (gpu.blocks[i] && gpu.blocks[i]->running) end_block(gpu.blocks[i]);
}

static const char *refuse(const struct emu_launch *at)
{
    if (at->threads < WARP || at->threads > THREADS_MAX || at->threads % WARP)
        return "threads per block";
    if (at->shared_bytes > CUDA_SHARED_MAX) return "more shared memory than a block may have";
    if (at->grid[0] < 1 || at->grid[1] < 1 || at->grid[1] > 65535 || at->grid[2] < 1 ||
        at->grid[2] > 65535)
        return "grid";
    if (at->cooperative && at->grid[0] * at->grid[1] * at->grid[2] > BLOCKS_MAX)
        return "more blocks than can run at one time";
    return NULL;
}

const char *emu_run(const struct emu_launch *at, emu_body *body, const void *args)
{
    if (refuse(at)) return refuse(at);
    if (!gpu.ready)
        for (int i = 0; i < 65536; i++) gpu.half[i] = kn_float_from_half((uint16_t)i);
    gpu.ready = true;
    gpu.at = at;
    gpu.body = body;
    gpu.args = args;
    gpu.rng = at->seed * 0x2545f4914f6cdd1du + 1;
    gpu.failed = false;
    int n = at->grid[0] * at->grid[1] * at->grid[2];
    int step = n > 1 ? 1 + (int)random_below((uint32_t)n - 1) : 1, i = 0;
    for (int a = step, b = n; b;) { /* blocks in a different order: any step that is prime to n */
        int r = a % b;
        a = b, b = r;
        if (!b && a != 1) step = n > 1 ? n - 1 : 1;
    }
    for (int k = 0; k < n && !gpu.failed; k++, i = (i + step) % n) {
        begin_block(i);
        run_block();
        if (!polls()) end_block(gpu.now);
    }
    run_waiting();
    return gpu.failed ? gpu.error : NULL;
}
