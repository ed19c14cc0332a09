#include "bench/remoting_site.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/gb_path.h"

enum { READY_MS = 20000 };

static gb_status_t write_key(site_t *site)
{
    snprintf(site->key_file, sizeof(site->key_file), "%s/key", site->dir);
    FILE *f = fopen(site->key_file, "w");
    if (!f)
        return gb_fail(GB_ERR_IO, "%s cannot be written", site->key_file);
    for (int i = 0; i < 32; i++)
        fprintf(f, "%02x", i + 1);
    fclose(f);
    return chmod(site->key_file, 0600) ? gb_fail(GB_ERR_IO, "chmod %s", site->key_file) : GB_OK;
}

static gb_status_t start_one(site_t *site, int n, const char *driver, int spare)
{
    char path[512], unix_path[96], spares[16], line[256], data[160];
    int local = site->link == RAW_UNIX || site->link == RAW_SHM;
    gb_status_t status = gb_path_installed("bin/gpu-proxy", path, sizeof(path));
    if (status)
        return status;
    snprintf(unix_path, sizeof(unix_path), "%s/proxy%d", site->dir, n);
    snprintf(spares, sizeof(spares), "%d", spare);
    char *argv[16] = {path, "--driver", (char *)(uintptr_t)driver, "--data-listen"};
    int k = 4;
    argv[k++] = local ? "none" : "127.0.0.1:0";
    if (local) {
        argv[k++] = "--unix";
        argv[k++] = unix_path;
    }
    argv[k++] = site->link == RAW_TLS ? "--key-file" : "--insecure";
    if (site->link == RAW_TLS)
        argv[k++] = site->key_file;
    if (spare >= 0) {
        argv[k++] = "--spare";
        argv[k++] = spares;
    }
    status = bench_process_start(argv, 1, &site->process[n]);
    if (status == GB_OK)
        status = bench_process_line(&site->process[n], "ready", READY_MS, line, sizeof(line));
    if (status)
        return status;
    if (!bench_process_field(line, "data=", data, sizeof(data)))
        return gb_fail(GB_ERR_FORMAT, "the proxy's line has no address: %s", line);
    size_t used = strlen(site->proxies);
    snprintf(site->proxies + used, sizeof(site->proxies) - used, "%s%s%s", used ? "," : "",
             local ? "unix:" : "", local ? unix_path : data);
    return GB_OK;
}

gb_status_t site_start(site_t *site, raw_kind_t link, const char *driver, int count, int spare,
                       const int cpus[SITE_PROXIES], int here)
{
    *site = (site_t){.link = link, .count = count};
    snprintf(site->dir, sizeof(site->dir), "/tmp/remoting.XXXXXX");
    if (!mkdtemp(site->dir))
        return gb_fail(GB_ERR_IO, "no folder in /tmp: free some space");
    gb_status_t status = link == RAW_TLS ? write_key(site) : GB_OK;
    for (int i = 0; i < count && status == GB_OK; i++) {
        raw_pin(cpus[i]);
        status = start_one(site, i, driver, spare);
    }
    raw_pin(here);
    setenv("GABLE_PROXIES", site->proxies, 1);
    setenv("GABLE_LINK_SHM", link == RAW_UNIX ? "0" : "1", 1);
    unsetenv("GABLE_LEASE");
    unsetenv("GABLE_KEY_FILE");
    if (*site->key_file)
        setenv("GABLE_KEY_FILE", site->key_file, 1);
    if (status)
        site_stop(site);
    return status;
}

void site_stop(site_t *site)
{
    char path[128];
    for (int i = 0; i < site->count; i++) {
        bench_process_stop(&site->process[i]);
        snprintf(path, sizeof(path), "%s/proxy%d", site->dir, i);
        unlink(path);
    }
    if (*site->key_file)
        unlink(site->key_file);
    rmdir(site->dir);
}

static pid_t parent_of(pid_t pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')');
    int parent = 0;
    return at && sscanf(at + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

pid_t site_session(const site_t *site, int n)
{
    DIR *dir = opendir("/proc");
    pid_t newest = 0;
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        pid_t pid = atoi(e->d_name);
        if (pid > newest && parent_of(pid) == site->process[n].pid)
            newest = pid;
    }
    if (dir)
        closedir(dir);
    return newest;
}
