/* windows: reads which layers of a model attend to a window only, from a file's metadata. */
#ifndef RETAIN_RUNTIME_MODEL_WINDOWS_H
#define RETAIN_RUNTIME_MODEL_WINDOWS_H

#include "runtime/model/model.h"

/* Sets m->windowed and is_windowed of all layers, by the file and the family's defaults. Call after
 * the layers are set. ERR_FORMAT. */
int windows_read(struct model *m, struct err *e);

#endif
