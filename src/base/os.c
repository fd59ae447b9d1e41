/* os.c - POSIX and Windows behind one small interface. */
#if defined(_WIN32)
#define _CRT_RAND_S
#else
#define _POSIX_C_SOURCE 200809L
#endif
#include "base/os.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"

/* Shader compilers recurse; some systems give threads half a megabyte. */
enum { STACK_BYTES = 8 << 20 };

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

enum { MOST_PATH = 16384 };

/* The system's own words, in UTF-8 and without the full stop and line end that they come with. */
static vklm_status io_error(vklm_error *error, const char *path, const char *what)
{
    const DWORD code = GetLastError();
    WCHAR wide[256];
    char why[512] = "";
    DWORD n = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0, wide, 256, NULL);
    while (n > 0 && (wide[n - 1] <= L' ' || wide[n - 1] == L'.')) n--;
    if (n > 0) (void)WideCharToMultiByte(CP_UTF8, 0, wide, (int)n, why, sizeof why - 1, NULL, NULL);
    return vki_fail(error, VKLM_IO_ERROR, "%s: %s (Windows error %lu: %s)", path, what, code, why);
}

static vklm_status file_size(intptr_t file, const char *name, vklm_error *error, uint64_t *size_bytes)
{
    LARGE_INTEGER size;
    if (GetFileType((HANDLE)file) != FILE_TYPE_DISK)
        return vki_fail(error, VKLM_IO_ERROR, "%s: not a regular file", name);
    if (!GetFileSizeEx((HANDLE)file, &size)) return io_error(error, name, "has no size");
    *size_bytes = (uint64_t)size.QuadPart;
    return VKLM_OK;
}

static uint64_t map_alignment(void)
{
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    return system.dwAllocationGranularity;
}

static void *map_range(intptr_t file, uint64_t offset, size_t size)
{
    void *bytes = NULL;
    HANDLE mapping = CreateFileMappingW((HANDLE)file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (mapping) bytes = MapViewOfFile(mapping, FILE_MAP_READ, (DWORD)(offset >> 32), (DWORD)offset, size);
    if (mapping) CloseHandle(mapping);
    return bytes;
}

/* The whole path in UTF-16, marked where it is long: Windows takes 260 characters of others. NULL: there is none. */
static const WCHAR *wide_path(const char *path, WCHAR to[MOST_PATH])
{
    WCHAR given[MOST_PATH], *full = to + 6;
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, given, MOST_PATH)) return NULL;
    const DWORD length = GetFullPathNameW(given, MOST_PATH - 6, full, NULL);
    if (length == 0 || length >= MOST_PATH - 6) return NULL;
    if (length < 248 || full[2] == L'?' || full[2] == L'.') return full;
    const bool share = full[0] == L'\\';
    return memcpy(share ? to : to + 2, share ? L"\\\\?\\UNC" : L"\\\\?\\", share ? 14 : 8);
}

vklm_status vki_map_open(vki_map *map, const char *path, vklm_error *error)
{
    *map = (vki_map){0};
    WCHAR buffer[MOST_PATH];
    const WCHAR *wide = wide_path(path, buffer);
    if (!wide) return vki_fail(error, VKLM_IO_ERROR, "%s: the path is empty, not UTF-8 or too long", path);
    const DWORD attributes = GetFileAttributesW(wide);
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY))
        return vki_fail(error, VKLM_IO_ERROR, "%s: not a regular file", path);
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_DELETE; /* others may rename it, or have it open to do so */
    HANDLE file = CreateFileW(wide, GENERIC_READ, share, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE) return io_error(error, path, "cannot be opened");
    const vklm_status status = vki_map_open_file(map, (intptr_t)file, 0, 0, path, error);
    CloseHandle(file);
    return status;
}

void vki_map_close(vki_map *map)
{
    if (map->bytes) UnmapViewOfFile(map->bytes - map->lead_bytes);
    *map = (vki_map){0};
}

void vki_map_expect(const uint8_t *bytes, uint64_t size_bytes)
{
    WIN32_MEMORY_RANGE_ENTRY range = {(void *)(uintptr_t)bytes, (SIZE_T)size_bytes};
    (void)PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
}

uint32_t vki_core_count(void)
{
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    return (uint32_t)vki_max(system.dwNumberOfProcessors, 1);
}

static DWORD WINAPI thread_main(void *thread)
{
    ((vki_thread *)thread)->main(((vki_thread *)thread)->user);
    return 0;
}

bool vki_thread_start(vki_thread *thread)
{
    HANDLE handle = CreateThread(NULL, STACK_BYTES, thread_main, thread, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
    thread->handle = (uintptr_t)handle;
    return handle != NULL;
}

void vki_thread_join(vki_thread *thread)
{
    WaitForSingleObject((HANDLE)thread->handle, INFINITE);
    CloseHandle((HANDLE)thread->handle);
}

vklm_status vki_signal_init(vki_signal *signal, vklm_error *error)
{
    (void)error;
    _Static_assert(sizeof(CONDITION_VARIABLE) <= sizeof signal->words, "room for the system's condition");
    *signal = (vki_signal){.made = true};
    InitializeConditionVariable((CONDITION_VARIABLE *)signal->words);
    return VKLM_OK;
}

void vki_signal_wait(vki_signal *signal, vki_mutex *mutex, uint64_t timeout_ns)
{
    const uint64_t ms = vki_div_up(timeout_ns, 1000000u);
    SleepConditionVariableCS((CONDITION_VARIABLE *)signal->words, (CRITICAL_SECTION *)mutex->words,
                             ms < INFINITE ? (DWORD)ms : INFINITE);
}

void vki_signal_raise(vki_signal *signal)
{
    WakeAllConditionVariable((CONDITION_VARIABLE *)signal->words);
}

void vki_signal_free(vki_signal *signal)
{
    signal->made = false;
}

static bool make_mutex(vki_mutex *mutex)
{
    _Static_assert(sizeof(CRITICAL_SECTION) <= sizeof mutex->words, "room for the system's lock");
    InitializeCriticalSection((CRITICAL_SECTION *)mutex->words);
    return true;
}

static void end_mutex(vki_mutex *mutex)
{
    DeleteCriticalSection((CRITICAL_SECTION *)mutex->words);
}

void vki_mutex_lock(vki_mutex *mutex)
{
    EnterCriticalSection((CRITICAL_SECTION *)mutex->words);
}

void vki_mutex_unlock(vki_mutex *mutex)
{
    LeaveCriticalSection((CRITICAL_SECTION *)mutex->words);
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

static bool system_random(uint64_t *bits)
{
    unsigned low = 0, high = 0;
    if (rand_s(&low) != 0 || rand_s(&high) != 0) return false;
    *bits = (uint64_t)high << 32 | low;
    return true;
}
#else
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static vklm_status io_error(vklm_error *error, const char *path, const char *what)
{
    return vki_fail(error, VKLM_IO_ERROR, "%s: %s (%s)", path, what, strerror(errno));
}

static vklm_status file_size(intptr_t file, const char *name, vklm_error *error, uint64_t *size_bytes)
{
    struct stat info;
    if (fstat((int)file, &info) != 0) return io_error(error, name, "has no size");
    if (!S_ISREG(info.st_mode)) return vki_fail(error, VKLM_IO_ERROR, "%s: not a regular file", name);
    *size_bytes = (uint64_t)info.st_size;
    return VKLM_OK;
}

static uint64_t map_alignment(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static void *map_range(intptr_t file, uint64_t offset, size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, (int)file, (off_t)offset);
    return bytes == MAP_FAILED ? NULL : bytes;
}

vklm_status vki_map_open(vki_map *map, const char *path, vklm_error *error)
{
    *map = (vki_map){0};
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return io_error(error, path, "cannot be opened");
    const vklm_status status = vki_map_open_file(map, file, 0, 0, path, error);
    close(file);
    return status;
}

void vki_map_close(vki_map *map)
{
    if (map->bytes)
        munmap((void *)((uintptr_t)map->bytes - (uintptr_t)map->lead_bytes), (size_t)(map->size_bytes + map->lead_bytes));
    *map = (vki_map){0};
}

void vki_map_expect(const uint8_t *bytes, uint64_t size_bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)bytes & ~(page - 1);
    (void)posix_madvise((void *)begin, (size_t)size_bytes + ((uintptr_t)bytes - begin), POSIX_MADV_WILLNEED);
}

uint32_t vki_core_count(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

static void *thread_main(void *thread)
{
    ((vki_thread *)thread)->main(((vki_thread *)thread)->user);
    return NULL;
}

/* The program's signals stay with its own threads. */
bool vki_thread_start(vki_thread *thread)
{
    pthread_t handle;
    pthread_attr_t attributes;
    sigset_t all, before;
    _Static_assert(sizeof handle <= sizeof thread->handle, "a thread's handle is a number or a pointer");
    if (pthread_attr_init(&attributes) != 0) return false;
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&handle, &attributes, thread_main, thread) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    if (started) memcpy(&thread->handle, &handle, sizeof handle);
    return started;
}

void vki_thread_join(vki_thread *thread)
{
    pthread_t handle;
    memcpy(&handle, &thread->handle, sizeof handle);
    (void)pthread_join(handle, NULL);
}

static bool make_mutex(vki_mutex *mutex)
{
    pthread_mutexattr_t attributes;
    _Static_assert(sizeof(pthread_mutex_t) <= sizeof mutex->words, "room for the system's lock");
    if (pthread_mutexattr_init(&attributes) != 0) return false;
    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    const bool made = pthread_mutex_init((pthread_mutex_t *)mutex->words, &attributes) == 0;
    (void)pthread_mutexattr_destroy(&attributes);
    return made;
}

static void end_mutex(vki_mutex *mutex)
{
    (void)pthread_mutex_destroy((pthread_mutex_t *)mutex->words);
}

void vki_mutex_lock(vki_mutex *mutex)
{
    (void)pthread_mutex_lock((pthread_mutex_t *)mutex->words);
}

void vki_mutex_unlock(vki_mutex *mutex)
{
    (void)pthread_mutex_unlock((pthread_mutex_t *)mutex->words);
}

/* What a wait ends by: a clock that nobody sets, where the system's waits know one. */
#ifdef __APPLE__
static const clockid_t wait_clock = CLOCK_REALTIME;
#define pthread_condattr_setclock(attributes, clock) ((void)(attributes), 0)
#else
static const clockid_t wait_clock = CLOCK_MONOTONIC;
#endif

vklm_status vki_signal_init(vki_signal *signal, vklm_error *error)
{
    _Static_assert(sizeof(pthread_cond_t) <= sizeof signal->words, "room for the system's condition");
    pthread_condattr_t clock;
    *signal = (vki_signal){.made = false};
    if (pthread_condattr_init(&clock) == 0) {
        signal->made = pthread_condattr_setclock(&clock, wait_clock) == 0 &&
                       pthread_cond_init((pthread_cond_t *)signal->words, &clock) == 0;
        (void)pthread_condattr_destroy(&clock);
    }
    return signal->made ? VKLM_OK : vki_fail(error, VKLM_OUT_OF_MEMORY, "the system has no signal left to give");
}

void vki_signal_wait(vki_signal *signal, vki_mutex *mutex, uint64_t timeout_ns)
{
    struct timespec until;
    if (timeout_ns == UINT64_MAX) {
        (void)pthread_cond_wait((pthread_cond_t *)signal->words, (pthread_mutex_t *)mutex->words);
        return;
    }
    clock_gettime(wait_clock, &until);
    const uint64_t ns = (uint64_t)until.tv_nsec + timeout_ns % 1000000000u;
    until.tv_sec += (time_t)(timeout_ns / 1000000000u + ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    (void)pthread_cond_timedwait((pthread_cond_t *)signal->words, (pthread_mutex_t *)mutex->words, &until);
}

void vki_signal_raise(vki_signal *signal)
{
    (void)pthread_cond_broadcast((pthread_cond_t *)signal->words);
}

void vki_signal_free(vki_signal *signal)
{
    if (signal->made) (void)pthread_cond_destroy((pthread_cond_t *)signal->words);
    signal->made = false;
}

uint64_t vki_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool system_random(uint64_t *bits)
{
    const int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const ssize_t got = read(file, bits, sizeof *bits);
    close(file);
    return got == (ssize_t)sizeof *bits;
}
#endif

vklm_status vki_map_open_file(vki_map *map, intptr_t file, uint64_t offset, uint64_t size_bytes, const char *name,
                              vklm_error *error)
{
    uint64_t whole = 0;
    *map = (vki_map){0};
    TRY(file_size(file, name, error, &whole));
    if (offset > whole || size_bytes > whole - offset)
        return vki_fail(error, VKLM_IO_ERROR, "%s: the file has %llu bytes, not %llu from byte %llu on", name,
                        (unsigned long long)whole, (unsigned long long)size_bytes, (unsigned long long)offset);
    if (size_bytes == 0) size_bytes = whole - offset;
    const uint64_t lead = offset % map_alignment();
    if (size_bytes > SIZE_MAX - lead)
        return vki_fail(error, VKLM_IO_ERROR, "%s: larger than what a process of this kind can map", name);
    if (size_bytes == 0) return VKLM_OK;
    const uint8_t *bytes = map_range(file, offset - lead, (size_t)(size_bytes + lead));
    if (!bytes) return io_error(error, name, "cannot be mapped");
    *map = (vki_map){.bytes = bytes + lead, .size_bytes = size_bytes, .lead_bytes = lead};
    return VKLM_OK;
}

uint64_t vki_random_seed(void)
{
    uint64_t seed = 0;
    if (!system_random(&seed)) seed = vki_now_ns() * 0x9e3779b97f4a7c15u;
    return seed ? seed : 1; /* 0 asks for a seed */
}

vklm_status vki_mutex_init(vki_mutex *mutex, vklm_error *error)
{
    *mutex = (vki_mutex){0};
    mutex->made = make_mutex(mutex);
    return mutex->made ? VKLM_OK : vki_fail(error, VKLM_OUT_OF_MEMORY, "the system has no lock left to give");
}

void vki_mutex_free(vki_mutex *mutex)
{
    if (mutex->made) end_mutex(mutex);
    *mutex = (vki_mutex){0};
}

static void work_all(void *crew)
{
    while (vki_crew_work(crew)) continue;
}

void vki_crew_start(vki_crew *crew, uint32_t threads)
{
    const size_t most = vki_min(vki_min(threads, VKI_MAX_THREADS), crew->n);
    for (; crew->n_threads < most; crew->n_threads++) {
        vki_thread *thread = &crew->threads[crew->n_threads];
        *thread = (vki_thread){.main = work_all, .user = crew};
        if (!vki_thread_start(thread)) return;
    }
}

bool vki_crew_work(vki_crew *crew)
{
    const size_t index = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed);
    if (index >= crew->n) return false;
    crew->job(crew->user, index);
    return true;
}

void vki_crew_end(vki_crew *crew)
{
    atomic_store_explicit(&crew->next, crew->n, memory_order_relaxed);
    while (crew->n_threads > 0) vki_thread_join(&crew->threads[--crew->n_threads]);
}
