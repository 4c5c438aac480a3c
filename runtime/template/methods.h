/* methods: shared by the files of methods. */
#ifndef RETAIN_RUNTIME_TEMPLATE_METHODS_H
#define RETAIN_RUNTIME_TEMPLATE_METHODS_H

#include "runtime/template/builtin.h"

const struct builtin *method_list_named(struct value object, struct text name);

#endif
