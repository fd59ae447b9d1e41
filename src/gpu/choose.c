/* choose.c - which of the machine's devices a caller means. Pure: works on probes, calls no Vulkan.
 *
 * `select` is read as a UUID where it has 32 hex digits, as a LUID where it has 16, as an index where it has one or
 * two digits, else as a part of a name ("4090" is a name). A device that was asked for by any of these
 * is taken or refused, never replaced by another; only of the drivers of one GPU a usable one is taken.
 */
#include "gpu/probe.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *const type_names[] = {
    [VKLM_DEVICE_DISCRETE] = "discrete GPU", [VKLM_DEVICE_INTEGRATED] = "integrated GPU",
    [VKLM_DEVICE_VIRTUAL] = "virtual GPU",   [VKLM_DEVICE_CPU] = "software device",
    [VKLM_DEVICE_OTHER] = "other device",
};

static bool usable(const vki_probe *probe)
{
    return probe->info.missing[0] == '\0';
}

static bool same_gpu(const vklm_device_info *a, const vklm_device_info *b)
{
    return memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0 ||
           (a->luid_valid && b->luid_valid && memcmp(a->luid, b->luid, sizeof a->luid) == 0);
}

/* Every device as "; 0: NAME (discrete GPU)", one of several drivers' with its driver, cut off where `text` ends. */
static void list_devices(const vki_probe *probes, uint32_t count, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < size; i++) {
        const vklm_device_info *info = &probes[i].info;
        bool twice = false;
        for (uint32_t k = 0; k < count; k++) twice = twice || (k != i && same_gpu(info, &probes[k].info));
        const int n = snprintf(text + used, size - used, "%s%u: %.80s (%s%s%.60s%s%s)", i ? "; " : "", i, info->name,
                               type_names[info->type], twice ? ", by " : "", twice ? info->driver : "",
                               usable(&probes[i]) ? "" : ", lacks ", info->missing);
        if (n < 0) return;
        used += (size_t)n;
    }
}

/* `size` bytes as hex digits. */
static bool parse_hex(const char *text, uint8_t *bytes, size_t size)
{
    if (strlen(text) != 2 * size) return false;
    for (size_t i = 0; i < 2 * size; i++) {
        const int c = tolower((unsigned char)text[i]);
        if (!isxdigit(c)) return false;
        const int digit = isdigit(c) ? c - '0' : c - 'a' + 10;
        bytes[i / 2] = (uint8_t)((bytes[i / 2] << 4) | digit);
    }
    return true;
}

static bool contains(const char *text, const char *part)
{
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) i++;
        if (!part[i]) return true;
    }
    return false;
}

static bool has_id(const vklm_device_info *info, const void *uuid, const void *luid)
{
    return (!uuid || memcmp(info->uuid, uuid, sizeof info->uuid) == 0) &&
           (!luid || (info->luid_valid && memcmp(info->luid, luid, sizeof info->luid) == 0));
}

/* The first device with this UUID, LUID or both, of several drivers' the first usable; or `count`. */
static uint32_t find_id(const void *uuid, const void *luid, const vki_probe *probes, uint32_t count, char *reason)
{
    uint32_t found = count;
    snprintf(reason, 256, "its %s was asked for", uuid ? "UUID" : "LUID");
    for (uint32_t i = count; i-- > 0;)
        if (has_id(&probes[i].info, uuid, luid) && (found == count || usable(&probes[i]) || !usable(&probes[found])))
            found = i;
    return found;
}

/* The device that was asked for, or `count`. */
static uint32_t find_selected(const char *select, const vki_probe *probes, uint32_t count,
                              char *reason)
{
    uint8_t uuid[16] = {0}, luid[8] = {0};
    const size_t len = strlen(select);
    if (len <= 2 && strspn(select, "0123456789") == len) {
        uint32_t index = 0;
        for (size_t i = 0; i < len; i++) index = index * 10 + (uint32_t)(select[i] - '0');
        snprintf(reason, 256, "it is device %u, which was asked for", index);
        return index < count ? index : count;
    }
    if (parse_hex(select, uuid, sizeof uuid)) return find_id(uuid, NULL, probes, count, reason);
    if (parse_hex(select, luid, sizeof luid)) return find_id(NULL, luid, probes, count, reason);
    snprintf(reason, 256, "its name is the first to contain \"%.200s\"", select);
    for (uint32_t i = 0; i < count; i++)
        if (contains(probes[i].info.name, select)) return i;
    return count;
}

/* Types are numbered by preference. */
static uint32_t rank(const vklm_device_info *info, vklm_power power)
{
    if (power == VKLM_POWER_LOW && info->type == VKLM_DEVICE_INTEGRATED) return 0;
    return (uint32_t)info->type + 1;
}

/* The best of the usable ones, or `count`. */
static uint32_t find_best(const vki_probe *probes, uint32_t count, vklm_power power, char *reason)
{
    uint32_t best = count;
    for (uint32_t i = 0; i < count; i++) {
        if (!usable(&probes[i])) continue;
        const vklm_device_info *a = &probes[i].info, *b = &probes[best < count ? best : i].info;
        const bool larger = power == VKLM_POWER_HIGH && a->type == b->type && a->memory_bytes > b->memory_bytes;
        if (best == count || rank(a, power) < rank(b, power) || larger) best = i;
    }
    if (best < count)
        snprintf(reason, 256, "the %s usable %s of %u device%s", power == VKLM_POWER_HIGH ? "largest" : "first",
                 type_names[probes[best].info.type], count, count == 1 ? "" : "s");
    return best;
}

vklm_status vki_choose_device(const vklm_device_params *params, const vki_probe *probes, uint32_t count,
                              vklm_error *error, uint32_t *index, char *reason)
{
    char list[800];
    const char *select = params->select && params->select[0] ? params->select : NULL;
    reason[0] = '\0';
    list_devices(probes, count, list, sizeof list);
    if (!select && !params->uuid && !params->luid) {
        *index = find_best(probes, count, params->power, reason);
        if (*index < count) return VKLM_OK;
        return vki_fail(error, VKLM_DEVICE_UNSUITABLE,
                        "no device can run vklm; a newer driver may help. There is %s", list);
    }
    *index = select ? find_selected(select, probes, count, reason)
                    : find_id(params->uuid, params->luid, probes, count, reason);
    if (*index == count)
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "no device matches %s%.100s%s. There is %s", select ? "\"" : "",
                        select ? select : params->uuid ? "the UUID" : "the LUID", select ? "\"" : "", list);
    const vklm_device_info *info = &probes[*index].info;
    if (usable(&probes[*index])) return VKLM_OK;
    return vki_fail(error, VKLM_DEVICE_UNSUITABLE,
                    "%s lacks %s; choose another or update its driver", info->name, info->missing);
}
