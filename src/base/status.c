/* status.c - names and sentences of the status codes, and the one place that writes an error text. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t vklm_version(void)
{
    return VKLM_VERSION_MAJOR * 10000 + VKLM_VERSION_MINOR * 100 + VKLM_VERSION_PATCH;
}

const char *vklm_status_name(vklm_status status)
{
    switch (status) {
#define CASE(name, sentence)                                                                       \
    case VKLM_##name: return "VKLM_" #name;
        VKLM_STATUS_LIST(CASE)
#undef CASE
    }
    return "unknown status";
}

const char *vklm_status_sentence(vklm_status status)
{
    switch (status) {
#define CASE(name, sentence)                                                                       \
    case VKLM_##name: return sentence;
        VKLM_STATUS_LIST(CASE)
#undef CASE
    }
    return "a status that this version does not know";
}

vklm_status vki_fail(vklm_error *error, vklm_status status, const char *format, ...)
{
    if (!error) return status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    error->status = status;
    return status;
}

vklm_status vki_params(void *own, size_t own_size, const void *given, const char *name, vklm_error *error)
{
    size_t size = 0;
    memset(own, 0, own_size);
    if (!given) return VKLM_OK;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "%s: set struct_size to sizeof(%s)", name, name);
    memcpy(own, given, size < own_size ? size : own_size);
    return VKLM_OK;
}

void vki_error_clear(vklm_error *error)
{
    if (!error) return;
    error->status = VKLM_OK;
    error->text[0] = '\0';
}
