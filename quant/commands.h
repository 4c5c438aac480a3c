/* commands of the workbench: everything done to a model outside a chat. Each takes parsed options,
 * prints results to stdout and everything else to stderr, and returns an exit status. */
#ifndef RETAIN_QUANT_COMMANDS_H
#define RETAIN_QUANT_COMMANDS_H

struct options;
struct str;

int quant_plan(const struct options *o);
int quant_info(const struct options *o);
int quant_verify(const struct options *o);
int quant_tokenize(const struct options *o);
int quant_perplexity(const struct options *o);
int quant_bench(const struct options *o);
int quant_eval(const struct options *o);
void quant_eval_help(struct str *out); /* its tasks */
int quant_quantize(const struct options *o);
int quant_heads(const struct options *o);

#endif
