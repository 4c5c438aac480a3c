/* latent: the products of latent attention (struct model_latent) that come before and after the
 * attention of one KV head: a chunk's queries and keys to f->qkv, its output from f->att to
 * f->latent.q, [n][n_head * n_value]. */
#ifndef RETAIN_RUNTIME_FORWARD_LATENT_H
#define RETAIN_RUNTIME_FORWARD_LATENT_H

struct arena;
struct forward;
struct layer_step;

void latent_plan(struct forward *f, struct arena *a);
void latent_run(struct layer_step *s);
void latent_values(struct layer_step *s);

#endif
