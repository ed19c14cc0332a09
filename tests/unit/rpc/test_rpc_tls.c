/* Certificates: roles, what is refused and what is said about it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/ca.h"
#include "gable.pb-c.h"
#include "tests/unit/rpc/rpc_help.h"

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    help_folder(folder);
    help_ca(folder, "ca");
    help_ca(folder, "other");
    help_issue(folder, "ca", "server", GB_ROLE_SERVER, 3600);
    help_issue(folder, "ca", "admin", GB_ROLE_ADMIN, 3600);
    help_issue(folder, "ca", "worker", GB_ROLE_WORKER, 3600);
    help_issue(folder, "ca", "proxy", GB_ROLE_PROXY, 3600);
    help_issue(folder, "ca", "expired", GB_ROLE_ADMIN, -3600);
    help_issue(folder, "other", "foreign", GB_ROLE_ADMIN, 3600);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    help_remove(folder);
    return 0;
}

static gb_status_t call(const char *target, const gb_rpc_tls_t *tls, const char *method,
                        const void *in, char *name, uint32_t *roles)
{
    gb_rpc_client_t *client;
    ProtobufCMessage *reply;
    assert_int_equal(gb_rpc_client_open(target, tls, &client), GB_OK);
    gb_status_t status =
        gb_rpc_client_call(client, &gable__v1__admin__descriptor, method, in, 5000, &reply);
    if (status == GB_OK) {
        const Gable__V1__StatusReply *answer = (void *)reply;
        snprintf(name, 64, "%s", answer->version);
        *roles = answer->devices;
        gb_rpc_message_free(reply);
    }
    gb_rpc_client_close(client);
    return status;
}

static void test_roles(void **state)
{
    (void)state;
    char target[64], name[64];
    uint32_t roles;
    gb_rpc_tls_t *server_tls = help_load(folder, "server");
    gb_rpc_server_t *server = help_server(server_tls, target);
    Gable__V1__Empty empty = GABLE__V1__EMPTY__INIT;
    Gable__V1__KillSessionRequest kill_request = GABLE__V1__KILL_SESSION_REQUEST__INIT;
    static const struct {
        const char *name;
        uint32_t role;
        gb_status_t status, kill;
    } CASES[] = {
        {"admin", GB_ROLE_ADMIN, GB_OK, GB_ERR_NOT_FOUND},
        {"worker", GB_ROLE_WORKER, GB_OK, GB_ERR_UNAUTHORISED},
        {"proxy", GB_ROLE_PROXY, GB_ERR_UNAUTHORISED, GB_ERR_UNAUTHORISED},
        {"server", GB_ROLE_SERVER, GB_ERR_UNAUTHORISED, GB_ERR_UNAUTHORISED},
    };
    for (int i = 0; i < 4; i++) {
        gb_rpc_tls_t *tls = help_load(folder, CASES[i].name);
        assert_int_equal(gb_rpc_tls_roles(tls), CASES[i].role);
        assert_string_equal(gb_rpc_tls_name(tls), CASES[i].name);
        assert_int_equal(call(target, tls, "Status", &empty, name, &roles), CASES[i].status);
        if (CASES[i].status == GB_OK) {
            assert_string_equal(name, CASES[i].name);
            assert_int_equal(roles, CASES[i].role);
        } else {
            assert_non_null(strstr(gb_why(), CASES[i].name));
        }
        assert_int_equal(call(target, tls, "KillSession", &kill_request, name, &roles),
                         CASES[i].kill);
        gb_rpc_tls_free(tls);
    }
    gb_rpc_server_stop(server, 0);
    gb_rpc_server_destroy(server);
    gb_rpc_tls_free(server_tls);
}

/* A stranger's certificate, one that has no business being a server, or none at all. */
static void test_strangers(void **state)
{
    (void)state;
    char target[64], name[64];
    uint32_t roles;
    gb_rpc_tls_t *server_tls = help_load(folder, "server");
    gb_rpc_server_t *server = help_server(server_tls, target);
    gb_rpc_tls_t *foreign = help_load(folder, "foreign");
    Gable__V1__Empty empty = GABLE__V1__EMPTY__INIT;
    assert_int_equal(call(target, foreign, "Status", &empty, name, &roles), GB_ERR_UNREACHABLE);
    assert_int_equal(gb_rpc_tls_diagnose(foreign, target, 5000), GB_ERR_UNAUTHORISED);
    assert_non_null(strstr(gb_why(), "certificate of the server"));
    assert_int_equal(call(target, NULL, "Status", &empty, name, &roles), GB_ERR_UNREACHABLE);
    assert_int_equal(gb_rpc_tls_diagnose(NULL, target, 5000), GB_ERR_UNAUTHORISED);
    assert_non_null(strstr(gb_why(), "--tls-dir"));
    gb_rpc_tls_free(foreign);
    gb_rpc_server_stop(server, 0);
    gb_rpc_server_destroy(server);
    gb_rpc_tls_free(server_tls);
}

static void test_worker_cannot_pose_as_server(void **state)
{
    (void)state;
    char target[64], name[64];
    uint32_t roles;
    gb_rpc_tls_t *worker = help_load(folder, "worker"), *admin = help_load(folder, "admin");
    gb_rpc_server_t *server = help_server(worker, target);
    Gable__V1__Empty empty = GABLE__V1__EMPTY__INIT;
    assert_int_equal(call(target, admin, "Status", &empty, name, &roles), GB_ERR_UNREACHABLE);
    assert_int_equal(gb_rpc_tls_diagnose(admin, target, 5000), GB_ERR_UNAUTHORISED);
    gb_rpc_server_stop(server, 0);
    gb_rpc_server_destroy(server);
    gb_rpc_tls_free(worker);
    gb_rpc_tls_free(admin);
}

/* A folder whose certificate is of `other` and that trusts `ca`. */
static void test_mixed_folder(void **state)
{
    (void)state;
    char from[160], to[160];
    snprintf(to, sizeof to, "%s/mixed", folder);
    assert_int_equal(mkdir(to, 0700), 0);
    static const char *const FILES[][2] = {{"ca/ca.pem", "ca.pem"},
                                           {"foreign/node.pem", "node.pem"},
                                           {"foreign/node.key", "node.key"}};
    for (int i = 0; i < 3; i++) {
        snprintf(from, sizeof from, "%s/%s", folder, FILES[i][0]);
        snprintf(to, sizeof to, "%s/mixed/%s", folder, FILES[i][1]);
        assert_int_equal(link(from, to), 0);
    }
    snprintf(to, sizeof to, "%s/mixed", folder);
    gb_rpc_tls_t *mixed = NULL;
    assert_int_equal(gb_rpc_tls_load(to, &mixed), GB_ERR_UNAUTHORISED);
    assert_non_null(strstr(gb_why(), "was not issued by"));
}

static void test_bad_folders(void **state)
{
    (void)state;
    char path[160], file[200];
    gb_rpc_tls_t *tls = NULL;
    snprintf(path, sizeof path, "%s/nothing", folder);
    assert_int_equal(gb_rpc_tls_load(path, &tls), GB_ERR_NOT_FOUND);
    assert_non_null(strstr(gb_why(), "gable ca"));
    snprintf(path, sizeof path, "%s/expired", folder);
    assert_int_equal(gb_rpc_tls_load(path, &tls), GB_ERR_UNAUTHORISED);
    assert_non_null(strstr(gb_why(), "expired on"));
    help_issue(folder, "ca", "broken", GB_ROLE_ADMIN, 3600);
    snprintf(file, sizeof file, "%s/broken/node.pem", folder);
    assert_int_equal(truncate(file, 100), 0);
    snprintf(path, sizeof path, "%s/broken", folder);
    assert_int_equal(gb_rpc_tls_load(path, &tls), GB_ERR_FORMAT);
    assert_non_null(strstr(gb_why(), "node.pem"));
    assert_null(tls);
}

static void test_ca_files(void **state)
{
    (void)state;
    char path[160], file[200];
    struct stat info;
    static const char *const FILES[] = {"ca/ca.key", "ca/ca.pem", "admin/node.key",
                                        "admin/node.pem", "admin/ca.pem"};
    for (int i = 0; i < 5; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, FILES[i]);
        assert_int_equal(stat(file, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
    }
    snprintf(path, sizeof path, "%s/ca", folder);
    assert_int_equal(ca_create(path, "again", 86400), GB_ERR_EXISTS);
    snprintf(file, sizeof file, "%s/admin", folder);
    ca_request_t request = {.ca_dir = path,
                            .out = file,
                            .name = "again",
                            .role = GB_ROLE_ADMIN,
                            .hosts = "",
                            .lifetime_s = 60};
    assert_int_equal(ca_issue(&request), GB_ERR_EXISTS);
    /* Nobody but a server gets the server's name. */
    snprintf(file, sizeof file, "%s/sly", folder);
    request.out = file;
    request.hosts = "localhost,server.gable";
    assert_int_equal(ca_issue(&request), GB_ERR_INVALID);
    request.hosts = "bad name";
    assert_int_equal(ca_issue(&request), GB_ERR_INVALID);
    request.hosts = "::1,10.0.0.1,gpu-1.lab";
    assert_int_equal(ca_issue(&request), GB_OK);
    snprintf(path, sizeof path, "%s/none", folder);
    request.ca_dir = path;
    assert_int_equal(ca_issue(&request), GB_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_worker_cannot_pose_as_server),
        cmocka_unit_test(test_mixed_folder),
        cmocka_unit_test(test_bad_folders),
        cmocka_unit_test(test_ca_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
