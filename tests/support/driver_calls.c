#include "support/driver_calls.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

driver_calls driver;
static struct VolkDeviceTable real; /* all wrapped devices are of one driver */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;

void driver_reset(void)
{
    memset(&driver, 0, sizeof driver);
}

void driver_fail(unsigned kinds, int n, bool for_ever, VkResult failure)
{
    driver.failing = kinds;
    driver.fail_at = n;
    driver.fail_for_ever = for_ever;
    driver.failure = failure;
    driver.counted = 0;
}

static bool fails_now(unsigned kinds, const char *name)
{
    if (!(driver.failing & kinds)) return false;
    const int n = ++driver.counted;
    if (n < 4096) driver.names[n] = name;
    return driver.fail_at && (driver.fail_for_ever ? n >= driver.fail_at : n == driver.fail_at);
}

static void check_callbacks(const VkAllocationCallbacks *given)
{
    const bool right = given && given->pfnAllocation == driver_callbacks.pfnAllocation;
    if (driver.expect_callbacks ? !right : given != NULL) driver.without_callbacks++;
}

static VkResult made(VkResult result)
{
    if (result >= VK_SUCCESS) driver.alive++;
    return result;
}

/* Objects with the usual pair of functions. */
#define OBJECTS(X)                                                                                                    \
    X(Buffer) X(Semaphore) X(Fence) X(CommandPool) X(QueryPool) X(PipelineLayout) X(PipelineCache) X(ShaderModule)

#define WRAP(name)                                                                                                    \
    static VKAPI_ATTR VkResult VKAPI_CALL wrapped_Create##name(                                                       \
        VkDevice device, const Vk##name##CreateInfo *info, const VkAllocationCallbacks *callbacks, Vk##name *out)     \
    {                                                                                                                 \
        check_callbacks(callbacks);                                                                                   \
        if (fails_now(DRIVER_MAKE, "vkCreate" #name)) return driver.failure;                                          \
        return made(real.vkCreate##name(device, info, callbacks, out));                                               \
    }                                                                                                                 \
    static VKAPI_ATTR void VKAPI_CALL wrapped_Destroy##name(VkDevice device, Vk##name object,                         \
                                                            const VkAllocationCallbacks *callbacks)                   \
    {                                                                                                                 \
        check_callbacks(callbacks);                                                                                   \
        driver.alive -= object != VK_NULL_HANDLE;                                                                     \
        real.vkDestroy##name(device, object, callbacks);                                                              \
    }
OBJECTS(WRAP)
#undef WRAP

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_CreateComputePipelines(VkDevice device, VkPipelineCache cache, uint32_t n,
                                                                     const VkComputePipelineCreateInfo *infos,
                                                                     const VkAllocationCallbacks *callbacks,
                                                                     VkPipeline *out)
{
    check_callbacks(callbacks);
    if (!fails_now(DRIVER_MAKE, "vkCreateComputePipelines"))
        return made(real.vkCreateComputePipelines(device, cache, n, infos, callbacks, out));
    for (uint32_t i = 0; i < n; i++) out[i] = VK_NULL_HANDLE;
    return driver.failure;
}

static VKAPI_ATTR void VKAPI_CALL wrapped_DestroyPipeline(VkDevice device, VkPipeline object,
                                                          const VkAllocationCallbacks *callbacks)
{
    check_callbacks(callbacks);
    driver.alive -= object != VK_NULL_HANDLE;
    real.vkDestroyPipeline(device, object, callbacks);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_AllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info,
                                                             const VkAllocationCallbacks *callbacks,
                                                             VkDeviceMemory *out)
{
    check_callbacks(callbacks);
    if (fails_now(DRIVER_MAKE | DRIVER_MEMORY, "vkAllocateMemory")) return driver.failure;
    return made(real.vkAllocateMemory(device, info, callbacks, out));
}

static VKAPI_ATTR void VKAPI_CALL wrapped_FreeMemory(VkDevice device, VkDeviceMemory memory,
                                                     const VkAllocationCallbacks *callbacks)
{
    check_callbacks(callbacks);
    driver.alive -= memory != VK_NULL_HANDLE;
    real.vkFreeMemory(device, memory, callbacks);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_AllocateCommandBuffers(VkDevice device,
                                                                     const VkCommandBufferAllocateInfo *info,
                                                                     VkCommandBuffer *out)
{
    if (!fails_now(DRIVER_MAKE, "vkAllocateCommandBuffers")) return real.vkAllocateCommandBuffers(device, info, out);
    for (uint32_t i = 0; i < info->commandBufferCount; i++) out[i] = NULL;
    return driver.failure;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_MapMemory(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                                        VkDeviceSize size, VkMemoryMapFlags flags, void **out)
{
    return fails_now(DRIVER_MAKE, "vkMapMemory") ? driver.failure
                                                 : real.vkMapMemory(device, memory, offset, size, flags, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_BindBufferMemory(VkDevice device, VkBuffer buffer, VkDeviceMemory memory,
                                                               VkDeviceSize offset)
{
    return fails_now(DRIVER_MAKE, "vkBindBufferMemory") ? driver.failure
                                                        : real.vkBindBufferMemory(device, buffer, memory, offset);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_BeginCommandBuffer(VkCommandBuffer command,
                                                                 const VkCommandBufferBeginInfo *info)
{
    return fails_now(DRIVER_MAKE, "vkBeginCommandBuffer") ? driver.failure : real.vkBeginCommandBuffer(command, info);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_EndCommandBuffer(VkCommandBuffer command)
{
    return fails_now(DRIVER_MAKE, "vkEndCommandBuffer") ? driver.failure : real.vkEndCommandBuffer(command);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_ResetCommandPool(VkDevice device, VkCommandPool pool,
                                                               VkCommandPoolResetFlags flags)
{
    return fails_now(DRIVER_MAKE, "vkResetCommandPool") ? driver.failure : real.vkResetCommandPool(device, pool, flags);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_QueueSubmit(VkQueue queue, uint32_t n, const VkSubmitInfo *infos,
                                                          VkFence fence)
{
    driver.submits++;
    driver.unlocked_submits += driver.locked != 1;
    return fails_now(DRIVER_SUBMIT, "vkQueueSubmit") ? driver.failure : real.vkQueueSubmit(queue, n, infos, fence);
}

/* A wait that fails has waited, so that nothing is in flight when all is destroyed. */
static VKAPI_ATTR VkResult VKAPI_CALL wrapped_WaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info,
                                                             uint64_t timeout_ns)
{
    const bool fails = fails_now(DRIVER_WAIT, "vkWaitSemaphores");
    const VkResult result = real.vkWaitSemaphores(device, info, fails ? UINT64_MAX : timeout_ns);
    return fails ? driver.failure : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_WaitForFences(VkDevice device, uint32_t n, const VkFence *fences,
                                                            VkBool32 all, uint64_t timeout_ns)
{
    const bool fails = fails_now(DRIVER_WAIT, "vkWaitForFences");
    const VkResult result = real.vkWaitForFences(device, n, fences, all, timeout_ns);
    return fails ? driver.failure : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_QueueWaitIdle(VkQueue queue)
{
    driver.idle_waits++;
    return real.vkQueueWaitIdle(queue);
}

static VKAPI_ATTR VkResult VKAPI_CALL wrapped_DeviceWaitIdle(VkDevice device)
{
    driver.idle_waits++;
    return real.vkDeviceWaitIdle(device);
}

#define PAIR(name) Y(Create##name) Y(Destroy##name)
#define WRAPPED(Y)                                                                                                    \
    OBJECTS(PAIR)                                                                                                     \
    Y(CreateComputePipelines) Y(DestroyPipeline) Y(AllocateMemory) Y(FreeMemory) Y(AllocateCommandBuffers)            \
    Y(MapMemory) Y(BindBufferMemory) Y(BeginCommandBuffer) Y(EndCommandBuffer) Y(ResetCommandPool) Y(QueueSubmit)     \
    Y(WaitSemaphores) Y(WaitForFences) Y(QueueWaitIdle) Y(DeviceWaitIdle)

void driver_wrap(vklm_device *device)
{
    real = device->fn;
#define Y(name) device->fn.vk##name = wrapped_##name;
    WRAPPED(Y)
#undef Y
}

void driver_unwrap(vklm_device *device)
{
    device->fn = real;
}

/* ---- A program's --------------------------------------------------------------------------------------------- */

static PFN_vkGetDeviceProcAddr real_device_proc;

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL wrapped_device_proc(VkDevice device, const char *name)
{
    const PFN_vkVoidFunction found = real_device_proc(device, name);
#define Y(member)                                                                                                     \
    if (strcmp(name, "vk" #member) == 0) {                                                                            \
        real.vk##member = (PFN_vk##member)(void (*)(void))found;                                                      \
        return (PFN_vkVoidFunction)(void (*)(void))wrapped_##member;                                                  \
    }
    WRAPPED(Y)
#undef Y
    return found;
}

PFN_vkVoidFunction driver_get_proc(VkInstance instance, const char *name)
{
    const PFN_vkVoidFunction found = vki_loader_get()(instance, name);
    if (strcmp(name, "vkGetDeviceProcAddr") != 0) return found;
    real_device_proc = (PFN_vkGetDeviceProcAddr)(void (*)(void))found;
    return (PFN_vkVoidFunction)(void (*)(void))wrapped_device_proc;
}

void driver_lock(void *user, VkQueue queue)
{
    (void)user;
    ck_assert_ptr_nonnull(queue);
    pthread_mutex_lock(&queue_lock);
    driver.locked++;
    driver.locks++;
}

void driver_unlock(void *user, VkQueue queue)
{
    (void)user;
    (void)queue;
    driver.locked--;
    pthread_mutex_unlock(&queue_lock);
}

/* Before the memory stand what malloc gave, and the size. */
static VKAPI_ATTR void *VKAPI_CALL host_allocate(void *user, size_t size, size_t alignment,
                                                 VkSystemAllocationScope scope)
{
    (void)user;
    (void)scope;
    const size_t front = sizeof(void *) + sizeof size;
    char *block = malloc(front + alignment + size);
    if (!block) return NULL;
    char *memory = block + front;
    memory += (alignment - (uintptr_t)memory % alignment) % alignment;
    memcpy(memory - sizeof size, &size, sizeof size);
    memcpy(memory - front, &block, sizeof block);
    driver.host_alive++;
    return memory;
}

static VKAPI_ATTR void VKAPI_CALL host_free(void *user, void *memory)
{
    (void)user;
    if (!memory) return;
    void *block;
    memcpy(&block, (char *)memory - sizeof block - sizeof(size_t), sizeof block);
    driver.host_alive--;
    free(block);
}

static VKAPI_ATTR void *VKAPI_CALL host_reallocate(void *user, void *memory, size_t size, size_t alignment,
                                                   VkSystemAllocationScope scope)
{
    void *moved = size ? host_allocate(user, size, alignment, scope) : NULL;
    if (moved && memory) {
        size_t before;
        memcpy(&before, (char *)memory - sizeof before, sizeof before);
        memcpy(moved, memory, before < size ? before : size);
    }
    if (moved || !size) host_free(user, memory);
    return moved;
}

const VkAllocationCallbacks driver_callbacks = {
    .pfnAllocation = host_allocate, .pfnReallocation = host_reallocate, .pfnFree = host_free};
