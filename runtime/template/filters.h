/* filters: shared by the files of filters and methods. */
#ifndef RETAIN_RUNTIME_TEMPLATE_FILTERS_H
#define RETAIN_RUNTIME_TEMPLATE_FILTERS_H

#include "runtime/template/builtin.h"

const struct builtin *filter_list_named(struct text name);

/* str.splitlines: without the line ends. */
struct list *text_lines(struct heap *h, struct text t);

#endif
