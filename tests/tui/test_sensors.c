/* Sensors against recorded trees of /proc and /sys, made here, and an NVML with given values:
 * values where they exist, n/a where not, and never a 0 that was not measured. */
#include "tests/test.h"

#include <math.h>
#include <poll.h>
#include <sys/stat.h>

#include "tests/tui/fake_stage.h"
#include "tui/term/sensors_linux.h"
#include "tui/view/bars.h"

static const char *root;

static void put(const char *path, const char *text)
{
    write_text(path_in(root, path), text);
}

static int make_tree(void **state)
{
    root = folder_new();
    return 0;
}

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)

/* ---- processor ------------------------------------------------------------------------------- */

TEST_WITH(test_cpu, make_tree, NULL)
{
    struct sensors_cpu p;
    struct sensor_reading r = sensor_nothing();
    put("proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3 4\n");
    put("proc/meminfo", "MemTotal: 100 kB\nSwapTotal:  2048 kB\nSwapFree:   1024 kB\n");
    put("sys/class/thermal/thermal_zone0/type", "acpitz\n");
    put("sys/class/thermal/thermal_zone0/temp", "99000\n");
    put("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
    put("sys/class/thermal/thermal_zone1/temp", "47500\n");
    put("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "3\n");
    sensors_cpu_open(&p, root);
    sensors_cpu_read(&p, &r.cpu, &r.swap_bytes);
    assert_true(isnan(r.cpu.load)); /* a mean needs two readings */
    NEAR(r.cpu.celsius, 47.5);
    assert_true(isnan(r.cpu.watt));
    NEAR(r.swap_bytes, 1024 * 1024);
    assert_string_equal(r.cpu.throttle, "");
    put("proc/stat", "cpu  150 0 125 750 175 0 0 0 0 0\n"); /* 75 of 200 ticks */
    put("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "3\n");
    sensors_cpu_read(&p, &r.cpu, &r.swap_bytes);
    NEAR(r.cpu.load, 37.5);
    assert_string_equal(r.cpu.throttle, "none");
    put("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "4\n");
    sensors_cpu_read(&p, &r.cpu, &r.swap_bytes);
    assert_string_equal(r.cpu.throttle, "thermal");
}

TEST_WITH(test_nothing_is_known, make_tree, NULL)
{
    struct sensors_cpu p;
    struct sensors_jetson board;
    struct sensor_reading r = sensor_nothing();
    sensors_cpu_open(&p, root);
    sensors_cpu_read(&p, &r.cpu, &r.swap_bytes);
    sensors_cpu_read(&p, &r.cpu, &r.swap_bytes);
    assert_true(isnan(r.cpu.load) && isnan(r.cpu.celsius) && isnan(r.cpu.watt));
    assert_true(isnan(r.swap_bytes));
    assert_false(sensors_jetson_open(&board, root));
}

/* ---- Jetson ---------------------------------------------------------------------------------- */

static void put_monitor(const char *chip, int channel, const char *label, const char *mv,
                        const char *ma)
{
    char path[128];
    snprintf(path, sizeof path, "%s/name", chip);
    put(path, "ina3221\n");
    snprintf(path, sizeof path, "%s/in%d_label", chip, channel);
    put(path, label);
    snprintf(path, sizeof path, "%s/in%d_input", chip, channel);
    put(path, mv);
    snprintf(path, sizeof path, "%s/curr%d_input", chip, channel);
    put(path, ma);
}

static void put_board(void)
{
    put("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n");
    put("sys/class/thermal/thermal_zone0/temp", "51000\n");
    put("sys/class/thermal/thermal_zone1/type", "gpu-thermal\n");
    put("sys/class/thermal/thermal_zone1/temp", "48250\n");
    put("sys/class/thermal/thermal_zone2/type", "tj-thermal\n");
    put("sys/class/thermal/thermal_zone2/temp", "51000\n");
    put("sys/class/thermal/thermal_zone3/type", "gpu-thermal\n"); /* disabled */
    put("sys/class/thermal/thermal_zone3/temp", "-256000\n");
}

/* AGX Orin: rails of two monitors add up. */
TEST_WITH(test_jetson_rails, make_tree, NULL)
{
    struct sensors_jetson p;
    struct sensor_part out = sensor_nothing().gpu;
    put_board();
    put("sys/devices/platform/bus@0/17000000.gpu/load", "913\n");
    put_monitor("sys/class/hwmon/hwmon1", 1, "VDD_GPU_SOC\n", "19800\n", "1000\n");
    put_monitor("sys/class/hwmon/hwmon1", 2, "VDD_CPU_CV\n", "19800\n", "500\n");
    put_monitor("sys/class/hwmon/hwmon2", 1, "VIN_SYS_5V0\n", "5000\n", "2000\n");
    put("sys/class/hwmon/hwmon3/name", "soctherm_oc\n");
    put("sys/class/hwmon/hwmon3/oc1_event_cnt", "2\n");
    put("sys/class/hwmon/hwmon3/oc2_event_cnt", "0\n");
    assert_true(sensors_jetson_open(&p, root));
    sensors_jetson_read(&p, &out);
    NEAR(out.load, 91.3);
    NEAR(out.celsius, 51);
    NEAR(out.watt, 19.8 + 9.9 + 10);
    assert_true(isnan(out.memory_bytes)); /* it shares the machine's memory */
    assert_string_equal(out.throttle, "");
    sensors_jetson_read(&p, &out);
    assert_string_equal(out.throttle, "none");
    put("sys/class/hwmon/hwmon3/oc2_event_cnt", "1\n");
    sensors_jetson_read(&p, &out);
    assert_string_equal(out.throttle, "over-current");
}

/* The board's rails and its hottest part are graphs of the conversation. */
TEST_WITH(test_jetson_in_the_graphs, make_tree, NULL)
{
    struct sensors_jetson p;
    AUTO_STAGE s;
    put_board();
    put("sys/devices/platform/bus@0/17000000.gpu/load", "500\n");
    put_monitor("sys/class/hwmon/hwmon1", 1, "VDD_GPU_SOC\n", "20000\n", "1000\n");
    assert_true(sensors_jetson_open(&p, root));
    stage_init(&s, false, false);
    s.app.sensors.has_gpu = true;
    stage_open(&s, NULL);
    for (int i = 0; i < 3; i++) {
        put("sys/class/hwmon/hwmon1/curr1_input", i < 2 ? "1500\n" : "1000\n");
        put("sys/class/thermal/thermal_zone2/temp", i < 2 ? "62000\n" : "55000\n");
        sensors_jetson_read(&p, &s.app.sensors.gpu);
        stage_type(&s, "words 50\r");
    }
    stage_key(&s, K_F1 + 7);
    stage_draw(&s, 160, 50);
    shows_too(&s, "TEMPERATURE  55 C, most 62 C");
    shows_too(&s, "POWER  20 W, most 30 W");
}

/* Orin NX and Nano: VDD_IN is the power of the whole board. */
TEST_WITH(test_jetson_total, make_tree, NULL)
{
    struct sensors_jetson p;
    struct sensor_part out = sensor_nothing().gpu;
    put_board();
    put("sys/devices/platform/gpu.0/load", "7\n");
    put_monitor("sys/class/hwmon/hwmon1", 1, "VDD_IN\n", "5000\n", "1600\n");
    put_monitor("sys/class/hwmon/hwmon1", 2, "VDD_CPU_GPU_CV\n", "5000\n", "400\n");
    assert_true(sensors_jetson_open(&p, root));
    sensors_jetson_read(&p, &out);
    NEAR(out.load, 0.7);
    NEAR(out.watt, 8);
    assert_string_equal(out.throttle, "");
}

/* Without the file of the load, as on some kernels: the other values are shown, and the load is not
 * 0. */
TEST_WITH(test_jetson_without_load, make_tree, NULL)
{
    struct sensors_jetson p;
    struct sensor_part out = sensor_nothing().gpu;
    put_board();
    put_monitor("sys/class/hwmon/hwmon0", 1, "VDD_GPU\n", "5000\n", "1000\n");
    assert_true(sensors_jetson_open(&p, root));
    sensors_jetson_read(&p, &out);
    assert_true(isnan(out.load));
    NEAR(out.watt, 5);
}

/* ---- NVML ------------------------------------------------------------------------------------ */

static const char *nvml_path(const char *which)
{
    static char path[256];
    const char *build = getenv("RETAIN"); /* build/retain */
    snprintf(path, sizeof path, "%s/tests/tui/%s", build ? build : "build", which);
    char *name = strstr(path, "/retain/");
    if (name) memmove(name, name + strlen("/retain"), strlen(name + strlen("/retain")) + 1);
    return path;
}

TEST(test_nvml)
{
    struct sensors_nvml p;
    struct sensor_part out = sensor_nothing().gpu;
    assert_true(sensors_nvml_open(&p, nvml_path("fake_nvml.so")));
    sensors_nvml_read(&p, &out);
    NEAR(out.load, 91);
    NEAR(out.celsius, 71);
    NEAR(out.watt, 298.4);
    NEAR(out.watt_max, 450);
    NEAR(out.memory_bytes, 3e9);
    assert_string_equal(out.throttle, "power");
    sensors_nvml_choose(&p, "0000:07:00.0"); /* not there */
    sensors_nvml_read(&p, &out);
    NEAR(out.load, 91);
    sensors_nvml_choose(&p, "0000:02:00.0");
    sensors_nvml_read(&p, &out);
    NEAR(out.load, 2);
    sensors_nvml_close(&p);
}

/* A driver that supports almost nothing. */
TEST(test_nvml_poor)
{
    struct sensors_nvml p;
    struct sensor_part out = sensor_nothing().gpu;
    setenv("FAKE_NVML", "poor", 1);
    assert_true(sensors_nvml_open(&p, nvml_path("fake_nvml.so")));
    sensors_nvml_read(&p, &out);
    unsetenv("FAKE_NVML");
    NEAR(out.load, 91);
    assert_true(isnan(out.celsius) && isnan(out.watt) && isnan(out.memory_bytes));
    assert_string_equal(out.throttle, "");
    sensors_nvml_close(&p);
    assert_false(sensors_nvml_open(&p, "libretain-has-no-such-library.so"));
}

/* ---- threads --------------------------------------------------------------------------------- */

static bool wait_for_change(struct sensors *s)
{
    struct pollfd fd = {.fd = sensors_fd(s), .events = POLLIN};
    return poll(&fd, 1, 120000) == 1;
}

TEST_WITH(test_threads, make_tree, NULL)
{
    struct sensor_reading r;
    put("proc/meminfo", "SwapTotal:  2048 kB\nSwapFree:   2048 kB\n");
    struct sensors *s = sensors_open(root, nvml_path("fake_nvml.so"));
    do {
        assert_true(wait_for_change(s));
        sensors_read(s, &r);
    } while (isnan(r.swap_bytes) || !r.has_gpu || isnan(r.gpu.load));
    NEAR(r.swap_bytes, 0); /* measured, so this 0 is true */
    NEAR(r.gpu.load, 91);
    assert_true(isnan(r.cpu.load));
    sensors_choose(s, "0000:02:00.0");
    do {
        assert_true(wait_for_change(s));
        sensors_read(s, &r);
    } while (r.gpu.load > 50);
    NEAR(r.gpu.load, 2);
    sensors_close(s);
    sensors_read(NULL, &r);
    assert_true(isnan(r.gpu.load));
}

/* A pipe without a writer, in place of a sensor: the screen continues, that field is unknown, and
 * leaving does not wait. */
TEST_WITH(test_a_sensor_that_hangs, make_tree, NULL)
{
    char path[128];
    struct sensor_reading r;
    put("proc/meminfo", "SwapTotal:  2048 kB\nSwapFree:   1024 kB\n");
    put_monitor("sys/class/hwmon/hwmon0", 1, "VDD_GPU\n", "5000\n", "1000\n");
    snprintf(path, sizeof path, "%s/sys/class/hwmon/hwmon0/curr1_input", root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    struct sensors *s = sensors_open(root, "");
    do {
        assert_true(wait_for_change(s));
        sensors_read(s, &r);
    } while (isnan(r.swap_bytes));
    assert_true(isnan(r.gpu.watt));
    sensors_close(s);
    FILE *f = fopen(path, "w"); /* lets the thread end */
    if (f) fclose(f);
}

/* ---- the line -------------------------------------------------------------------------------- */

static void line_is(struct stage *s, int w, const char *expected)
{
    AUTO_STR out = {0};
    grid_init(&s->grid, w, 1, true);
    bar_sensors(&s->app, grid_pane(&s->grid), 0);
    grid_dump(&s->grid, &out);
    char *from = strchr(str_get(&out), '\n') + 1, *end = strchr(from, '|');
    while (end > from && end[-1] == ' ') end--;
    *end = 0;
    assert_string_equal(from, expected);
}

TEST(test_line)
{
    AUTO_STAGE s;
    stage_init(&s, true, true);
    line_is(&s, 80, "cpu  load n/a  swap n/a  throttle n/a");
    stage_open(&s, NULL);
    stage_type(&s, "hello\r");
    s.app.sensors.cpu = (struct sensor_part){37.6, 47.5, NAN, NAN, NAN, ""};
    s.app.sensors.gpu = (struct sensor_part){91, 71, 298.4, 450, 3e9, "none"};
    s.app.sensors.has_gpu = true;
    s.app.sensors.swap_bytes = 0;
    line_is(&s, 80, "cpu  load 38%  48C  swap 0  throttle n/a");
    snprintf(s.app.stats.device, sizeof s.app.stats.device, "cuda:0");
    line_is(&s, 80, "gpu  load 91%  71C  298/450W  swap 0  throttle none");
    line_is(&s, 28, "gpu  load 91%  71C  298/450W");
}
