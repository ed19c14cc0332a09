/* A session that understands single letters instead of CUDA, for tests of what is around it: the real
 * gpu-session's main() with another px_session_run. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/cuda/gb_driver.h"
#include "gpu-proxy/session/px_locker.h"
#include "gpu-proxy/session/px_output.h"
#include "gpu-proxy/session/px_session.h"

static void reply(gb_link_t *link, const void *data, size_t size)
{
    (void)gb_link_send(link, data, size);
}

void px_session_alive(void) {}

/* Answers with the status, and with what the file that was found says. */
static void locker(int socket, char letter, const px_token_t *token, gb_link_t *link)
{
    struct {
        int64_t status;
        char text[8], data[PX_LOCKER_DATA];
    } answer = {0};
    uint64_t number;
    int fd = -1;
    if (letter == 'p') {
        char data[PX_LOCKER_DATA] = "beside it";
        fd = memfd_create("test", MFD_CLOEXEC);
        if (write(fd, "a file", 6) == 6)
            answer.status = px_locker_put(socket, token, data, fd, NULL);
    } else if (letter == 'g') {
        answer.status = px_locker_get(socket, token, answer.data, &fd, &number);
        if (answer.status == GB_OK && pread(fd, answer.text, 6, 0) != 6)
            answer.status = GB_ERR_IO;
    } else {
        answer.status = px_locker_drop(socket, token);
    }
    if (fd >= 0)
        close(fd);
    reply(link, &answer, sizeof answer);
}

gb_status_t px_output_capture(void)
{
    return GB_OK;
}

gb_status_t px_session_run(const px_session_config_t *config, gb_durable_t *stream)
{
    gb_link_t *link = gb_durable_link(stream);
    for (;;) {
        char letter;
        uint64_t number;
        int64_t facts[3] = {getpid(), config->device_count, (int64_t)config->memory_quota};
        gb_status_t st = gb_link_recv(link, &letter, 1, GB_NEVER);
        if (st != GB_OK)
            return st;
        switch (letter) {
        case 'f': /* facts */
            reply(link, facts, sizeof facts);
            break;
        case 'm': /* memory held: 8 bytes follow */
            st = gb_link_recv(link, &number, sizeof number, GB_NEVER);
            if (st != GB_OK)
                return st;
            config->used(config->used_arg, number);
            reply(link, "m", 1);
            break;
        case 'k': { /* where are its kernels cached? */
            char text[256] = "";
            const char *set = getenv("GABLE_CPU_CACHE");
            strncpy(text, set ? set : "", sizeof text - 1);
            reply(link, text, sizeof text);
            break;
        }
        case 'h': /* a kernel that never ends */
            for (;;)
                pause();
        case 'c': /* crash */
            signal(SIGSEGV, SIG_DFL);
            raise(SIGSEGV);
            break;
        case 'd': { /* number of open descriptors */
            int64_t count = 0;
            for (int fd = 0; fd < 1024; fd++)
                count += dup2(fd, fd) == fd;
            reply(link, &count, sizeof count);
            break;
        }
        case 'x': { /* may it start a program, signal others, see that they are there? errno of each */
            char *argv[] = {"/bin/true", NULL};
            int64_t codes[3];
            execve(argv[0], argv, argv + 1);
            codes[0] = errno;
            codes[1] = kill(getppid(), SIGURG) ? errno : 0;
            codes[2] = kill(getppid(), 0) ? errno : 0;
            reply(link, codes, sizeof codes);
            break;
        }
        case 'p': /* leaves something in its locker, under a token; 'g': looks; 't': takes back */
        case 'g':
        case 't': {
            px_token_t token;
            st = gb_link_recv(link, &token, sizeof token, GB_NEVER);
            if (st != GB_OK)
                return st;
            locker(config->locker, letter, &token, link);
            break;
        }
        default: /* bye */
            return GB_OK;
        }
    }
}

/* Tells who dials as another session that it has come here. */
gb_status_t px_peers_create(uint32_t timeout_ms, px_peers_t **out)
{
    (void)timeout_ms;
    *out = NULL;
    return GB_OK;
}

void px_peers_offer(px_peers_t *peers, int fd, const gb_preamble_t *facts, const gb_key_t *key)
{
    gb_link_t *link;
    (void)peers;
    if (gb_link_adopt(fd, facts, key, gb_now_ns() + 5000000000ull, &link) != GB_OK)
        return;
    reply(link, &facts->connection, sizeof facts->connection);
    gb_link_close(link);
}

static CUresult fake_init(unsigned flags)
{
    (void)flags;
    return CUDA_SUCCESS;
}

static CUresult fake_version(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

static CUresult fake_count(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

static CUresult fake_get(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

static CUresult fake_name(char *name, int size, CUdevice device)
{
    (void)device;
    strncpy(name, "Fake device", (size_t)size);
    return CUDA_SUCCESS;
}

static CUresult fake_memory(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)5 << 30;
    return CUDA_SUCCESS;
}

static CUresult fake_attribute(int *value, CUdevice_attribute which, CUdevice device)
{
    (void)device;
    *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 8
             : which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT   ? 4
                                                                   : 0;
    return CUDA_SUCCESS;
}

void px_null_driver(gb_cuda_table_t *out)
{
    gb_cuda_table_defaults(out);
    out->cuInit = fake_init;
    out->cuDriverGetVersion = fake_version;
    out->cuDeviceGetCount = fake_count;
    out->cuDeviceGet = fake_get;
    out->cuDeviceGetName = fake_name;
    out->cuDeviceTotalMem_v2 = fake_memory;
    out->cuDeviceGetAttribute = fake_attribute;
}
