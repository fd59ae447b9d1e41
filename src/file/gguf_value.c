/* gguf_value.c - typed reads of a GGUF file's keys. The bytes were checked when the file was opened; here types and
 * ranges are. Integers and floats may have any width that holds the value, as writers are loose about it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "file/gguf_read.h"
#include "file/little.h"

static const struct {
    const char *name;
    uint32_t bytes;
} types[VKI_GGUF_TYPE_COUNT] = {
    [VKI_GGUF_U8] = {"u8", 1},       [VKI_GGUF_I8] = {"i8", 1},
    [VKI_GGUF_U16] = {"u16", 2},     [VKI_GGUF_I16] = {"i16", 2},
    [VKI_GGUF_U32] = {"u32", 4},     [VKI_GGUF_I32] = {"i32", 4},
    [VKI_GGUF_F32] = {"f32", 4},     [VKI_GGUF_BOOL] = {"bool", 1},
    [VKI_GGUF_U64] = {"u64", 8},     [VKI_GGUF_I64] = {"i64", 8},
    [VKI_GGUF_F64] = {"f64", 8},     [VKI_GGUF_STRING] = {"string", 0},
    [VKI_GGUF_ARRAY] = {"array", 0},
};

const char *vki_gguf_type_name(vki_gguf_type type)
{
    return types[type].name;
}

uint32_t vki_gguf_type_bytes(vki_gguf_type type)
{
    return types[type].bytes;
}

static bool is_float(vki_gguf_type type)
{
    return type == VKI_GGUF_F32 || type == VKI_GGUF_F64;
}

static bool is_integer(vki_gguf_type type)
{
    return types[type].bytes > 0 && type != VKI_GGUF_BOOL && !is_float(type);
}

static vklm_status wrong_type(const vki_gguf *gguf, const vki_gguf_value *value,
                              const char *expected, vklm_error *error)
{
    return vki_fail(error, VKLM_BAD_FILE, "%s: key '%.100s' is of type %s%s, expected %s",
                    gguf->path, value->key, value->is_array ? "array of " : "",
                    types[value->type].name, expected);
}

static const vki_gguf_value *find_key(const vki_gguf *gguf, const char *key, bool *found)
{
    const vki_gguf_value *value = vki_gguf_find(gguf, key);
    if (found) *found = value != NULL;
    return value;
}

vki_string vki_gguf_string_at(const vki_gguf_value *value, uint64_t index)
{
    const uint8_t *bytes = value->bytes + (value->is_array ? value->string_offsets[index] : 0);
    return (vki_string){.text = (const char *)bytes + 8, .len = (size_t)vki_load64(bytes)};
}

int64_t vki_gguf_int_at(const vki_gguf_value *value, uint64_t index)
{
    const uint8_t *bytes = value->bytes + index * types[value->type].bytes;
    switch (value->type) {
    case VKI_GGUF_U8:
    case VKI_GGUF_BOOL: return *bytes;
    case VKI_GGUF_I8: return (int8_t)*bytes;
    case VKI_GGUF_U16: return vki_load16(bytes);
    case VKI_GGUF_I16: return (int16_t)vki_load16(bytes);
    case VKI_GGUF_U32: return vki_load32(bytes);
    case VKI_GGUF_I32: return (int32_t)vki_load32(bytes);
    case VKI_GGUF_I64: return (int64_t)vki_load64(bytes);
    case VKI_GGUF_U64: {
        const uint64_t number = vki_load64(bytes);
        return number > INT64_MAX ? INT64_MAX : (int64_t)number;
    }
    default: return 0;
    }
}

double vki_gguf_float_at(const vki_gguf_value *value, uint64_t index)
{
    const uint8_t *bytes = value->bytes + index * types[value->type].bytes;
    if (value->type == VKI_GGUF_F32) return (double)vki_float_of_bits(vki_load32(bytes));
    if (value->type != VKI_GGUF_F64) return 0;
    const uint64_t bits = vki_load64(bytes);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

vklm_status vki_gguf_u64(const vki_gguf *gguf, const char *key, uint64_t max, vklm_error *error,
                         uint64_t *out, bool *found)
{
    const vki_gguf_value *value = find_key(gguf, key, found);
    if (!value) return VKLM_OK;
    if (value->is_array || !is_integer(value->type)) return wrong_type(gguf, value, "an integer", error);
    const int64_t number = vki_gguf_int_at(value, 0);
    const uint64_t magnitude = value->type == VKI_GGUF_U64 ? vki_load64(value->bytes) : (uint64_t)number;
    if (number < 0 || magnitude > max)
        return vki_fail(error, VKLM_BAD_FILE,
                        "%s: key '%.100s' is %s%" PRIu64 ", expected 0 to %" PRIu64, gguf->path,
                        key, number < 0 ? "-" : "", number < 0 ? 0 - magnitude : magnitude, max);
    *out = magnitude;
    return VKLM_OK;
}

vklm_status vki_gguf_u32(const vki_gguf *gguf, const char *key, vklm_error *error, uint32_t *out, bool *found)
{
    uint64_t wide = *out;
    TRY(vki_gguf_u64(gguf, key, UINT32_MAX, error, &wide, found));
    *out = (uint32_t)wide;
    return VKLM_OK;
}

vklm_status vki_gguf_f32(const vki_gguf *gguf, const char *key, vklm_error *error, float *out, bool *found)
{
    const vki_gguf_value *value = find_key(gguf, key, found);
    if (!value) return VKLM_OK;
    if (value->is_array || !is_float(value->type)) return wrong_type(gguf, value, "f32", error);
    const double number = vki_gguf_float_at(value, 0);
    if (!(fabs(number) <= 0x1.fffffep127)) /* FLT_MAX; false for NaN */
        return vki_fail(error, VKLM_BAD_FILE, "%s: key '%.100s' is %g, expected a finite f32",
                        gguf->path, key, number);
    *out = (float)number;
    return VKLM_OK;
}

vklm_status vki_gguf_bool(const vki_gguf *gguf, const char *key, vklm_error *error, bool *out, bool *found)
{
    const vki_gguf_value *value = find_key(gguf, key, found);
    if (!value) return VKLM_OK;
    if (value->is_array || value->type != VKI_GGUF_BOOL) return wrong_type(gguf, value, "bool", error);
    *out = *value->bytes != 0;
    return VKLM_OK;
}

vklm_status vki_gguf_string(const vki_gguf *gguf, const char *key, vklm_error *error,
                            vki_string *out, bool *found)
{
    const vki_gguf_value *value = find_key(gguf, key, found);
    if (!value) return VKLM_OK;
    if (value->is_array || value->type != VKI_GGUF_STRING) return wrong_type(gguf, value, "string", error);
    *out = vki_gguf_string_at(value, 0);
    return VKLM_OK;
}

vklm_status vki_gguf_array_of(const vki_gguf *gguf, const char *key, vki_gguf_kind kind,
                              vklm_error *error, const vki_gguf_value **out)
{
    static const char *const expected[] = {"array of strings", "array of integers or bools", "array of floats"};
    const vki_gguf_value *value = vki_gguf_find(gguf, key);
    *out = NULL;
    if (!value) return VKLM_OK;
    const bool fits = kind == VKI_GGUF_STRINGS ? value->type == VKI_GGUF_STRING
                      : kind == VKI_GGUF_FLOATS
                          ? is_float(value->type)
                          : is_integer(value->type) || value->type == VKI_GGUF_BOOL;
    if (!value->is_array || !fits) return wrong_type(gguf, value, expected[kind], error);
    *out = value;
    return VKLM_OK;
}
