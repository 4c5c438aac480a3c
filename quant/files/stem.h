/* stem: English words without their endings, by Porter's algorithm (1980) as NLTK's PorterStemmer
 * runs it, with NLTK's own exceptions. LoCoMo compares stems. */
#ifndef RETAIN_QUANT_FILES_STEM_H
#define RETAIN_QUANT_FILES_STEM_H

#include "quant/files/wide.h"

/* Replaces word i of *w, in lower case, by its stem, in the text of w itself. */
void stem_word(struct wide *text, struct words *w, size_t i);

#endif
