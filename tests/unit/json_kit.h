/* json_kit: JSON files and what is in them, and lists of messages as chat templates take them. */
#ifndef RETAIN_TESTS_JSON_KIT_H
#define RETAIN_TESTS_JSON_KIT_H

#include "tests/test.h"

#include <cjson/cJSON.h>

#include "base/file.h"
#include "tests/unit/data.h"

static inline void json_end(cJSON **o)
{
    cJSON_Delete(*o);
}

#define AUTO_JSON __attribute__((cleanup(json_end))) cJSON

static inline cJSON *read_json(const char *path)
{
    AUTO_STR text = {0};
    ok(file_read(path, FILE_DATA, &text, &err));
    cJSON *o = cJSON_Parse(str_get(&text));
    assert_true(cJSON_GetArraySize(o) > 0);
    return o;
}

static inline const cJSON *json_at(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!v) fail_msg("no %s", key);
    return v;
}

static inline const char *json_text(const cJSON *o, const char *key)
{
    return json_at(o, key)->valuestring;
}

/* Templates of models, "cases"; with "stand_ins" they are the small ones of this repository. */
static inline cJSON *read_templates(void)
{
    char path[2048];
    assert_non_null(data_path(path, sizeof path, "templates/chat_templates.json"));
    return read_json(path);
}

static inline cJSON *add_message(cJSON *all, const char *role, const char *text)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "role", role);
    cJSON_AddStringToObject(o, "content", text);
    cJSON_AddItemToArray(all, o);
    return o;
}

#endif
