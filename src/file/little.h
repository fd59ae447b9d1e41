/* little.h - little-endian numbers at any address: the order of everything in GGUF files and in
 * device memory. Compilers turn each of these into one load or store. */
#ifndef VKI_LITTLE_H
#define VKI_LITTLE_H

#include <stdint.h>
#include <string.h>

/* Folded by compilers. */
static inline int vki_host_is_little(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first;
}

static inline uint32_t vki_swap32(uint32_t value)
{
    return value << 24 | (value & 0xff00) << 8 | (value >> 8 & 0xff00) | value >> 24;
}

static inline uint64_t vki_swap64(uint64_t value)
{
    return (uint64_t)vki_swap32((uint32_t)value) << 32 | vki_swap32((uint32_t)(value >> 32));
}

static inline uint16_t vki_load16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static inline uint32_t vki_load32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return vki_host_is_little() ? value : vki_swap32(value);
}

static inline uint64_t vki_load64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return vki_host_is_little() ? value : vki_swap64(value);
}

static inline void vki_store32(uint8_t *bytes, uint32_t value)
{
    if (!vki_host_is_little()) value = vki_swap32(value);
    memcpy(bytes, &value, sizeof value);
}

static inline void vki_store64(uint8_t *bytes, uint64_t value)
{
    if (!vki_host_is_little()) value = vki_swap64(value);
    memcpy(bytes, &value, sizeof value);
}

static inline float vki_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t vki_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#endif
