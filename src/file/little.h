/* little.h - little-endian numbers at any address: the order of everything in GGUF files and in
 * device memory. Compilers turn each of these into one load or store. */
#ifndef VKI_LITTLE_H
#define VKI_LITTLE_H

#include <stdint.h>
#include <string.h>

static inline uint16_t vki_load16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static inline uint32_t vki_load32(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline uint64_t vki_load64(const uint8_t *bytes)
{
    return vki_load32(bytes) | (uint64_t)vki_load32(bytes + 4) << 32;
}

static inline void vki_store32(uint8_t *bytes, uint32_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
    bytes[2] = (uint8_t)(value >> 16);
    bytes[3] = (uint8_t)(value >> 24);
}

static inline void vki_store64(uint8_t *bytes, uint64_t value)
{
    vki_store32(bytes, (uint32_t)value);
    vki_store32(bytes + 4, (uint32_t)(value >> 32));
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
