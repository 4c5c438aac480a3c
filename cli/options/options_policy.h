/* options_policy: the text of --policy: NAME, or NAME:key=value,key=value. */
#ifndef RETAIN_CLI_OPTIONS_OPTIONS_POLICY_H
#define RETAIN_CLI_OPTIONS_OPTIONS_POLICY_H

#include "base/err.h"
#include "base/str.h"
#include "cli/options/options.h"

/* A list of policies. An item with '=' but without ':' is a further key of the policy before it.
 * ERR_USAGE names the unknown policy or key and the most similar one. */
int options_policies_read(const char *text, struct options_policies *out, struct err *e);

/* NAME and the changed keys; nothing for an empty choice. */
void options_policy_print(const struct policy_choice *c, struct str *out);

/* The i-th key, for the manual and for completion; false past the end. */
struct options_policy_key {
    const char *name, *help;
};
bool options_policy_key(int i, struct options_policy_key *out);

#endif
