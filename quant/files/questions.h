/* questions: a file of documents, questions and answers, a JSON object on each line.
 *
 *   context     the document, or
 *   turns       the document as messages of a user and an assistant, in turn
 *   question    what follows the document in the prompt, after an empty line, unless it begins with
 *               white space
 *   answers     a text, a number, or a list of them
 *
 * and optionally: before (what precedes the document), prefix (the first words of the answer),
 * system, metric, max_tokens, raw (true: no chat template), id, group. quant/files/convert.py
 * writes such files from the published formats of benchmarks. */
#ifndef RETAIN_QUANT_FILES_QUESTIONS_H
#define RETAIN_QUANT_FILES_QUESTIONS_H

#include "quant/files/item.h"
#include "quant/files/records.h"

struct questions { /* zero-initialise */
    struct records records;
    struct str name; /* the file's name without folder and ending */
    int number;      /* of the last item */
};

/* ERR_FAIL or ERR_FORMAT names the file. */
int questions_open(struct questions *q, const char *path, struct err *e);
void questions_close(struct questions *q);

/* 1 and the next item; 0 at the end; a negative code names file, line and field. */
int questions_next(struct questions *q, struct item *out, struct err *e);

struct questions_size {
    int n_items;         /* at least 1 */
    size_t prompt_bytes; /* of the longest prompt */
};

/* Reads the whole file and checks every item. */
int questions_check(const char *path, struct questions_size *out, struct err *e);

#endif
