/* known_heads: retaining heads that others have published, and the models they were trained for. */
#ifndef RETAIN_CLI_PULL_KNOWN_HEADS_H
#define RETAIN_CLI_PULL_KNOWN_HEADS_H

struct known_heads {
    const char *model;   /* in a model's name, lower case, words joined by '-' */
    int n_layer, n_embd; /* its shape */
    const char *address; /* for `retain pull` */
};

/* The i-th heads for a model of this name and shape, from 0; NULL = no more are known. */
const struct known_heads *known_heads_for(const char *name, int n_layer, int n_embd, int i);

#endif
