/* os.h - every call to the operating system. The only place with platform #ifdefs. */
#ifndef VKI_OS_H
#define VKI_OS_H

#include <stdatomic.h>

#include "base/host.h"

/* A file mapped read-only, or a part of it. */
typedef struct vki_map {
    const uint8_t *bytes; /* NULL for an empty file */
    uint64_t size_bytes;
    uint64_t lead_bytes;  /* mapped before them: maps begin at multiples of a page */
} vki_map;

/* path: UTF-8, on Windows too. IO_ERROR names the path and the system's reason. */
vklm_status vki_map_open(vki_map *map, const char *path, vklm_error *error);

/* size_bytes from `offset` on of an open file, a descriptor or on Windows a HANDLE, which stays the caller's; size 0:
 * to its end. name: for errors. IO_ERROR where the file has not so many bytes, or cannot be mapped. */
vklm_status vki_map_open_file(vki_map *map, intptr_t file, uint64_t offset, uint64_t size_bytes, const char *name,
                              vklm_error *error);

/* Safe on a zeroed map. */
void vki_map_close(vki_map *map);

/* Asks for a part of a map soon: the system reads it ahead. A hint, and nothing fails. */
void vki_map_expect(const uint8_t *bytes, uint64_t size_bytes);

/* Monotonic. */
uint64_t vki_now_ns(void);

enum { VKI_MAX_THREADS = 16 };

/* Processors of this machine, at least 1. */
uint32_t vki_core_count(void);

/* A thread of its own; false: the system gives none. Ends when main returns, and is joined once. */
typedef struct vki_thread {
    void (*main)(void *user);
    void *user;
    uintptr_t handle;
} vki_thread;

bool vki_thread_start(vki_thread *thread);
void vki_thread_join(vki_thread *thread);

/* n jobs and the threads that take them, one after the other. Zeroed: none. Jobs must not allocate: the
 * embedder's callbacks belong to its own thread. */
typedef struct vki_crew {
    void (*job)(void *user, size_t index); /* called once for each index below n, on any thread */
    void *user;
    size_t n;
    atomic_size_t next;                    /* the first job that nobody has taken */
    uint32_t n_threads;                    /* running */
    vki_thread threads[VKI_MAX_THREADS];
} vki_crew;

/* Starts up to `threads` threads for the jobs and returns at once; where the system has fewer to give, the rest
 * is left to vki_crew_work. job, user and n are set, the rest is zero. Nothing of the crew moves until it ends. */
void vki_crew_start(vki_crew *crew, uint32_t threads);
/* Runs one job on the caller's thread; false where none is left to take. */
bool vki_crew_work(vki_crew *crew);
/* Waits for the jobs that were taken; others never run. Safe on a zeroed crew, and twice. */
void vki_crew_end(vki_crew *crew);

/* The thread that holds it may lock it again, and unlocks it as often. Zeroed: none yet, which only free takes. */
typedef struct vki_mutex {
    uint64_t words[8]; /* the system's own */
    bool made;
} vki_mutex;

vklm_status vki_mutex_init(vki_mutex *mutex, vklm_error *error);
void vki_mutex_free(vki_mutex *mutex);
void vki_mutex_lock(vki_mutex *mutex);
void vki_mutex_unlock(vki_mutex *mutex);

/* What threads that hold a mutex, once, wait for: somebody's vki_signal_raise. */
typedef struct vki_signal {
    uint64_t words[8]; /* the system's own */
    bool made;
} vki_signal;

vklm_status vki_signal_init(vki_signal *signal, vklm_error *error);
/* Gives the mutex back while it waits; UINT64_MAX: for ever. May return early, without a reason. */
void vki_signal_wait(vki_signal *signal, vki_mutex *mutex, uint64_t timeout_ns);
void vki_signal_raise(vki_signal *signal);
void vki_signal_free(vki_signal *signal);

/* A seed from the operating system; falls back on the clock where it has none to give. */
uint64_t vki_random_seed(void);

#endif
