#ifndef RETAIN_TESTS_EMU_BROKEN_H
#define RETAIN_TESTS_EMU_BROKEN_H

struct broken {
    int wrong;       /* 0: the kernel is right */
    const float *in; /* [128] ones */
    float *out;      /* [threads] */
};

#endif
