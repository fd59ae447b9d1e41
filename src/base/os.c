/* os.c - POSIX and Windows behind one small interface. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif
#include "base/os.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static vklm_status io_error(vklm_error *error, const char *path, const char *what)
{
    return vki_fail(error, VKLM_IO_ERROR, "%s: %s (Windows error %lu)", path, what, GetLastError());
}

vklm_status vki_map_open(vki_map *map, const char *path, vklm_error *error)
{
    *map = (vki_map){0};
    WCHAR wide[32768];
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, 32768))
        return vki_fail(error, VKLM_IO_ERROR, "%s: the path is not UTF-8", path);
    HANDLE file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE) return io_error(error, path, "cannot be opened");
    LARGE_INTEGER size;
    vklm_status status = VKLM_OK;
    if (!GetFileSizeEx(file, &size)) {
        status = io_error(error, path, "has no size");
    } else if (size.QuadPart > 0) {
        HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
        if (mapping) map->bytes = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
        if (mapping) CloseHandle(mapping);
        map->size_bytes = (uint64_t)size.QuadPart;
        if (!map->bytes) status = io_error(error, path, "cannot be mapped");
    }
    CloseHandle(file);
    if (status != VKLM_OK) *map = (vki_map){0};
    return status;
}

void vki_map_close(vki_map *map)
{
    if (map->bytes) UnmapViewOfFile(map->bytes);
    *map = (vki_map){0};
}

uint64_t vki_now_ns(void)
{
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    const uint64_t whole = (uint64_t)(count.QuadPart / frequency.QuadPart);
    const uint64_t rest = (uint64_t)(count.QuadPart % frequency.QuadPart);
    return whole * 1000000000u + rest * 1000000000u / (uint64_t)frequency.QuadPart;
}

static bool system_random(void *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    return false;
}
#else
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static vklm_status io_error(vklm_error *error, const char *path, const char *what)
{
    return vki_fail(error, VKLM_IO_ERROR, "%s: %s (%s)", path, what, strerror(errno));
}

vklm_status vki_map_open(vki_map *map, const char *path, vklm_error *error)
{
    *map = (vki_map){0};
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return io_error(error, path, "cannot be opened");
    struct stat info;
    vklm_status status = VKLM_OK;
    if (fstat(file, &info) != 0) {
        status = io_error(error, path, "has no size");
    } else if (!S_ISREG(info.st_mode)) {
        status = vki_fail(error, VKLM_IO_ERROR, "%s: not a regular file", path);
    } else if (info.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes == MAP_FAILED) status = io_error(error, path, "cannot be mapped");
        else *map = (vki_map){.bytes = bytes, .size_bytes = (uint64_t)info.st_size};
    }
    close(file);
    return status;
}

void vki_map_close(vki_map *map)
{
    if (map->bytes) munmap((void *)(uintptr_t)map->bytes, (size_t)map->size_bytes);
    *map = (vki_map){0};
}

uint64_t vki_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool system_random(void *bytes, size_t size)
{
    const int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const ssize_t got = read(file, bytes, size);
    close(file);
    return got == (ssize_t)size;
}
#endif

uint64_t vki_random_seed(void)
{
    uint64_t seed = 0;
    if (!system_random(&seed, sizeof seed)) seed = vki_now_ns() * 0x9e3779b97f4a7c15u;
    return seed ? seed : 1; /* 0 asks for a seed */
}
