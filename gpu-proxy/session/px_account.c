#include "gpu-proxy/session/px_account.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { VERSION = 1 };

struct px_account {
    int fd;
    pthread_mutex_t lock;
};

px_account_t *px_account_open(int fd)
{
    px_account_t *account = calloc(1, sizeof(*account));
    if (!account)
        return NULL;
    account->fd = fd;
    pthread_mutex_init(&account->lock, NULL);
    return account;
}

void px_account_close(px_account_t *account)
{
    if (!account)
        return;
    if (account->fd >= 0)
        close(account->fd);
    pthread_mutex_destroy(&account->lock);
    free(account);
}

static int ask(int fd, const px_account_wish_t *wish, px_account_answer_t *answer)
{
    ssize_t n;
    if (send(fd, wish, sizeof(*wish), MSG_NOSIGNAL) != (ssize_t)sizeof(*wish))
        return 0;
    do
        n = recv(fd, answer, sizeof(*answer), 0);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*answer);
}

px_account_answer_t px_account_want(px_account_t *account, int ordinal, uint64_t bytes)
{
    const px_account_wish_t wish = {VERSION, (uint32_t)ordinal, bytes};
    px_account_answer_t answer = {bytes, UINT64_MAX};
    if (!account || account->fd < 0)
        return answer;
    pthread_mutex_lock(&account->lock);
    if (!ask(account->fd, &wish, &answer))
        answer = (px_account_answer_t){0, 0};
    pthread_mutex_unlock(&account->lock);
    return answer;
}

gb_status_t px_account_receive(int fd, px_account_wish_t *wish)
{
    px_account_wish_t w;
    ssize_t n = recv(fd, &w, sizeof(w), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return GB_ERR_AGAIN;
    if (n <= 0)
        return gb_fail(GB_ERR_LOST, "the session is gone");
    if (n != (ssize_t)sizeof(w) || w.version != VERSION)
        return gb_fail(GB_ERR_PROTOCOL, "the session asks for memory in a way that makes no sense");
    *wish = w;
    return GB_OK;
}

void px_account_reply(int fd, const px_account_answer_t *answer)
{
    ssize_t n = send(fd, answer, sizeof(*answer), MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)n; /* gone: nobody waits any more */
}
