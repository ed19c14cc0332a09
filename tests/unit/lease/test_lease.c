/* Lease and key files: round trip, refusals that name the line and never show a key, derivation. */
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

#include "common/lease/gb_lease.h"

#define KEY_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_B "f0f102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static const char GOOD[] = "gable-lease 1\n"
                           "# a comment\n"
                           "\n"
                           "lease 00000000deadbeef\n"
                           "expires 1700000000000\n"
                           "proxy 10.0.0.7:7072 key " KEY_A " devices 0,3 memory 1048576\n"
                           "proxy unix:/run/gable/p key " KEY_B "\n"
                           "shard [::1]:7073 key " KEY_B "\n";

static void check_good(const gb_lease_t *l)
{
    assert_int_equal(l->id, 0xdeadbeef);
    assert_true(l->expires_ms == 1700000000000ull);
    assert_int_equal(l->proxy_count, 2);
    assert_int_equal(l->shard_count, 1);
    assert_string_equal(l->proxies[0].endpoint.name, "10.0.0.7");
    assert_int_equal(l->proxies[0].key.bytes[1], 1);
    assert_int_equal(l->proxies[0].device_count, 2);
    assert_int_equal(l->proxies[0].devices[1], 3);
    assert_int_equal(l->proxies[0].memory, 1048576);
    assert_int_equal(l->proxies[1].endpoint.kind, GB_ENDPOINT_UNIX);
    assert_int_equal(l->proxies[1].device_count, 0);
    assert_int_equal(l->proxies[1].memory, 0);
    assert_string_equal(l->shards[0].endpoint.name, "::1");
    assert_int_equal(l->shards[0].key.bytes[0], 0xf0);
}

static void good_text(void **state)
{
    (void)state;
    gb_lease_t l;
    assert_int_equal(gb_lease_parse(GOOD, strlen(GOOD), &l), GB_OK);
    check_good(&l);
    assert_false(gb_lease_expired(&l, 1699999999999ull));
    assert_true(gb_lease_expired(&l, 1700000000000ull));
    gb_lease_free(&l);
    assert_null(l.proxies);
    gb_lease_free(&l);
    l.expires_ms = 0;
    assert_false(gb_lease_expired(&l, UINT64_MAX));
}

static void bad_texts(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "\n\n# nothing\n",
        "lease 0000000000000001\n",
        "gable-lease 1\n",
        "gable-lease 1\nlease 1\n",
        "gable-lease 1\nlease 00000000000000012\n",
        "gable-lease 1\nlease 0000000000000001\nlease 0000000000000001\n",
        "gable-lease 1\nlease 0000000000000001\nexpires soon\n",
        "gable-lease 1\nlease 0000000000000001\nexpires 99999999999999999999999\n",
        "gable-lease 1\nlease 0000000000000001\nproxy a:1\n",
        "gable-lease 1\nlease 0000000000000001\nproxy a key " KEY_A "\n",
        "gable-lease 1\nlease 0000000000000001\nproxy a:1 key 12ab\n",
        "gable-lease 1\nlease 0000000000000001\nproxy a:1 key " KEY_A "00\n",
        "gable-lease 1\nlease 0000000000000001\nproxy a:1 key " KEY_A " devices\n",
        "gable-lease 1\nlease 0000000000000001\nproxy a:1 key " KEY_A " devices 0,\n",
        "gable-lease 1\nlease 0000000000000001\nproxy a:1 key " KEY_A " devices 0,x\n",
        "gable-lease 1\nlease 0000000000000001\nproxy a:1 key " KEY_A " memory -1\n",
        "gable-lease 1\nlease 0000000000000001\nproxy a:1 key " KEY_A " colour red\n",
        "gable-lease 1\nlease 0000000000000001\nshard a:1 key " KEY_A " devices 1\n",
        "gable-lease 1\nlease 0000000000000001\nsurprise\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gb_lease_t l;
        assert_int_equal(gb_lease_parse(bad[i], strlen(bad[i]), &l), GB_ERR_FORMAT);
        assert_null(strstr(gb_why(), "0001020304"));
    }
    gb_lease_t l;
    assert_int_equal(gb_lease_parse("gable-lease 2\n", 14, &l), GB_ERR_VERSION);
    assert_int_equal(gb_lease_parse("gable-lease 1\nle\0se 0000000000000001\n", 37, &l),
                     GB_ERR_FORMAT);
    static char longest[4096] = "gable-lease 1\n#";
    memset(longest + 15, 'x', sizeof longest - 16);
    assert_int_equal(gb_lease_parse(longest, sizeof longest - 1, &l), GB_ERR_FORMAT);
}

static void files(void **state)
{
    (void)state;
    char folder[] = "/tmp/gable-test-XXXXXX";
    char path[64];
    struct stat sb;
    gb_lease_t l;
    gb_lease_t back;
    gb_key_t key;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/lease", folder);
    assert_int_equal(gb_lease_parse(GOOD, strlen(GOOD), &l), GB_OK);
    assert_int_equal(gb_lease_save(&l, path), GB_OK);
    assert_int_equal(gb_lease_save(&l, path), GB_OK); /* replaces */
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    assert_int_equal(gb_lease_load(path, &back), GB_OK);
    check_good(&back);
    gb_lease_free(&back);
    gb_lease_free(&l);

    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(gb_lease_load(path, &back), GB_ERR_UNAUTHORISED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(gb_lease_load(path, &back), GB_ERR_NOT_FOUND);
    assert_int_equal(gb_lease_load(folder, &back), GB_ERR_FORMAT);

    static const struct {
        const char *text;
        gb_status_t status;
    } keys[] = {{KEY_A, GB_OK},          {" \n" KEY_A "\n", GB_OK},    {"", GB_ERR_FORMAT},
                {"0001", GB_ERR_FORMAT}, {KEY_A KEY_A, GB_ERR_FORMAT}, {KEY_A " x", GB_ERR_FORMAT}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fchmod(fileno(f), 0600), 0);
        fputs(keys[i].text, f);
        fclose(f);
        assert_int_equal(gb_key_load(path, &key), keys[i].status);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(gb_lease_save(&l, "/nonexistent/folder/lease"), GB_ERR_NOT_FOUND);
}

static void derived_keys(void **state)
{
    (void)state;
    gb_key_t master;
    gb_key_t k[6];
    assert_int_equal(gb_lease_master_key(&master), GB_OK);
    assert_int_equal(gb_lease_derive_key(&master, 1, "proxy", "a", &k[0]), GB_OK);
    assert_int_equal(gb_lease_derive_key(&master, 1, "proxy", "b", &k[1]), GB_OK);
    assert_int_equal(gb_lease_derive_key(&master, 1, "shard", "a", &k[2]), GB_OK);
    assert_int_equal(gb_lease_derive_key(&master, 2, "proxy", "a", &k[3]), GB_OK);
    assert_int_equal(gb_lease_derive_key(&master, 1, "proxy", "a", &k[4]), GB_OK);
    for (int i = 1; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(&k[i], &k[j], sizeof k[i]);
    assert_memory_equal(&k[0], &k[4], sizeof k[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_text),
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(files),
        cmocka_unit_test(derived_keys),
    };
    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
