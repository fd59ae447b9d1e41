/* choose.c - which of the machine's devices a caller means. Pure: works on probes, calls no Vulkan.
 *
 * `select` is read as a UUID where it has 32 hex digits, as an index where it has one or two
 * digits, else as a part of a name ("4090" is a name). A device that was asked for by any of these
 * is taken or refused, never replaced by another.
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

/* Every device as "; 0: NAME (discrete GPU)", cut off where `text` ends. */
static void list_devices(const vki_probe *probes, uint32_t count, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < size; i++) {
        const vklm_device_info *info = &probes[i].info;
        const int n =
            snprintf(text + used, size - used, "%s%u: %.80s (%s%s%s)", i ? "; " : "", i, info->name,
                     type_names[info->type], usable(&probes[i]) ? "" : ", lacks ", info->missing);
        if (n < 0) return;
        used += (size_t)n;
    }
}

static bool parse_uuid(const char *text, uint8_t uuid[16])
{
    if (strlen(text) != 32) return false;
    for (size_t i = 0; i < 32; i++) {
        const int c = tolower((unsigned char)text[i]);
        if (!isxdigit(c)) return false;
        const int digit = isdigit(c) ? c - '0' : c - 'a' + 10;
        uuid[i / 2] = (uint8_t)((uuid[i / 2] << 4) | digit);
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

/* The device that was asked for, or `count`. */
static uint32_t find_selected(const char *select, const vki_probe *probes, uint32_t count,
                              char *reason)
{
    uint8_t uuid[16] = {0};
    const bool by_uuid = parse_uuid(select, uuid);
    const size_t len = strlen(select);
    if (len <= 2 && strspn(select, "0123456789") == len) {
        uint32_t index = 0;
        for (size_t i = 0; i < len; i++) index = index * 10 + (uint32_t)(select[i] - '0');
        snprintf(reason, 256, "it is device %u, which was asked for", index);
        return index < count ? index : count;
    }
    if (by_uuid) snprintf(reason, 256, "its UUID was asked for");
    else snprintf(reason, 256, "its name is the first to contain \"%.200s\"", select);
    for (uint32_t i = 0; i < count; i++) {
        const vklm_device_info *info = &probes[i].info;
        if (by_uuid ? memcmp(info->uuid, uuid, sizeof uuid) == 0 : contains(info->name, select))
            return i;
    }
    return count;
}

/* The first usable device of the best type, or `count`. Types are numbered by preference. */
static uint32_t find_best(const vki_probe *probes, uint32_t count, char *reason)
{
    uint32_t best = count;
    for (uint32_t i = 0; i < count; i++)
        if (usable(&probes[i]) && (best == count || probes[i].info.type < probes[best].info.type))
            best = i;
    if (best < count)
        snprintf(reason, 256, "the first usable %s of %u device%s",
                 type_names[probes[best].info.type], count, count == 1 ? "" : "s");
    return best;
}

vklm_status vki_choose_device(const char *select, const vki_probe *probes, uint32_t count,
                              vklm_error *error, uint32_t *index, char *reason)
{
    char list[800];
    reason[0] = '\0';
    if (!select || !select[0]) {
        *index = find_best(probes, count, reason);
        if (*index < count) return VKLM_OK;
        list_devices(probes, count, list, sizeof list);
        return vki_fail(error, VKLM_DEVICE_UNSUITABLE,
                        "no device can run vklm; a newer driver may help. There is %s", list);
    }
    *index = find_selected(select, probes, count, reason);
    if (*index == count) {
        list_devices(probes, count, list, sizeof list);
        return vki_fail(error, VKLM_INVALID_ARGUMENT, "no device matches \"%.100s\". There is %s",
                        select, list);
    }
    const vklm_device_info *info = &probes[*index].info;
    if (usable(&probes[*index])) return VKLM_OK;
    return vki_fail(error, VKLM_DEVICE_UNSUITABLE,
                    "%s lacks %s; choose another or update its driver", info->name, info->missing);
}
