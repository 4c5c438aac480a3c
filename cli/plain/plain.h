/* plain: the chat without a screen: append-only lines, for pipes, screen readers and dumb
 * terminals. stdout carries only the model's answers. */
#ifndef RETAIN_CLI_CONTROL_PLAIN_H
#define RETAIN_CLI_CONTROL_PLAIN_H

struct options;

int plain_run(const struct options *o);

#endif
