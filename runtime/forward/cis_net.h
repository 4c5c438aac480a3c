/* cis_net: the scores that a layer's retaining head gives to some tokens, for every form of network
 * (runtime/model/retaining.h). */
#ifndef RETAIN_RUNTIME_FORWARD_CIS_NET_H
#define RETAIN_RUNTIME_FORWARD_CIS_NET_H

#include "runtime/model/retaining.h"

#define CIS_NET_TOKENS 64 /* tokens at most */

/* Floats of scratch that one thread needs. */
size_t cis_net_floats(const struct retaining *h);

/* Scores n tokens, whose inputs are the first n rows of x, quantized if W1 is: out[n][n_head].
 * scratch: cis_net_floats of this thread. */
void cis_net_score(const struct retaining *h, int layer, const struct kernels *k,
                   const struct kn_act *x, int n, float *scratch, float *out);

#endif
