/* heads_text: the built-in text that heads are fitted to (heads_fit) when none is given. */
#ifndef RETAIN_QUANT_HEADS_HEADS_TEXT_H
#define RETAIN_QUANT_HEADS_HEADS_TEXT_H

#include "quant/heads/heads_data.h"

/* Opens its passages as rows of plain text. */
int heads_text_open(struct heads_data *d, struct err *e);

#endif
