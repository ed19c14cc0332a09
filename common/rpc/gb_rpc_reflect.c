/* gb_rpc_reflect.c - server reflection, v1alpha and v1 (the same messages under two names).
 *
 * The answers are the FileDescriptorProtos that protoc wrote at build time, found by walking the
 * embedded descriptor set: a FileDescriptorSet is field 1 repeated, one file each. */
#include "common/rpc/gb_rpc_internal.h"

#include <stdio.h>
#include <string.h>

#include "grpc/reflection/v1alpha/reflection.pb-c.h"

extern const unsigned char gb_rpc_descriptors[];
extern const size_t gb_rpc_descriptors_size;

typedef Grpc__Reflection__V1alpha__ServerReflectionRequest request_t;
typedef Grpc__Reflection__V1alpha__ServerReflectionResponse response_t;

typedef struct {
    const uint8_t *data;
    size_t size;
} span_t;

/* ---- protobuf wire format, as far as descriptors need it ---- */

static int take_varint(span_t *in, uint64_t *out)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && in->size; shift += 7) {
        uint8_t byte = *in->data++;
        in->size--;
        value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) {
            *out = value;
            return 1;
        }
    }
    return 0;
}

/* Next field: its number, and its bytes if it is length-delimited (else empty). */
static int take_field(span_t *in, uint32_t *number, span_t *content)
{
    uint64_t key, value;
    if (!in->size || !take_varint(in, &key))
        return 0;
    *number = (uint32_t)(key >> 3);
    content->data = NULL;
    content->size = 0;
    if ((key & 7) == 0)
        return take_varint(in, &value);
    size_t fixed = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : 0;
    if (!fixed) {
        if ((key & 7) != 2 || !take_varint(in, &value) || value > in->size)
            return 0;
        content->data = in->data;
        content->size = fixed = (size_t)value;
    }
    if (fixed > in->size)
        return 0;
    in->data += fixed;
    in->size -= fixed;
    return 1;
}

static int first_field(span_t in, uint32_t wanted, span_t *out)
{
    uint32_t number;
    while (take_field(&in, &number, out))
        if (number == wanted)
            return 1;
    return 0;
}

static int equals(span_t span, const char *text, size_t size)
{
    return span.size == size && !memcmp(span.data, text, size);
}

/* ---- finding files ---- */

enum { FILE_NAME = 1, FILE_PACKAGE = 2, FILE_MESSAGE = 4, FILE_ENUM = 5, FILE_SERVICE = 6 };

/* Is package.NAME, NAME being the first part of what follows the package, defined in this file? */
static int defines(span_t file, const char *symbol)
{
    span_t package, item, name;
    if (!first_field(file, FILE_PACKAGE, &package) || strlen(symbol) <= package.size ||
        memcmp(symbol, package.data, package.size) || symbol[package.size] != '.')
        return 0;
    const char *rest = symbol + package.size + 1;
    size_t size = strcspn(rest, ".");
    uint32_t number;
    while (take_field(&file, &number, &item))
        if ((number == FILE_MESSAGE || number == FILE_ENUM || number == FILE_SERVICE) &&
            first_field(item, 1, &name) && equals(name, rest, size))
            return 1;
    return 0;
}

static int named(span_t file, const char *path)
{
    span_t name;
    return first_field(file, FILE_NAME, &name) && equals(name, path, strlen(path));
}

static int find_file(int (*match)(span_t, const char *), const char *text, span_t *out)
{
    span_t set = {gb_rpc_descriptors, gb_rpc_descriptors_size};
    uint32_t number;
    while (take_field(&set, &number, out))
        if (number == 1 && match(*out, text))
            return 1;
    return 0;
}

/* ---- answers ---- */

static void answer_services(const gb_rpc_server_t *server, gb_rpc_call_t *call,
                            response_t *response)
{
    Grpc__Reflection__V1alpha__ListServiceResponse list =
        GRPC__REFLECTION__V1ALPHA__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1alpha__ServiceResponse items[GB_RPC_MAX_SERVICES];
    Grpc__Reflection__V1alpha__ServiceResponse *pointers[GB_RPC_MAX_SERVICES];
    for (uint32_t i = 0; i < server->service_count; i++) {
        grpc__reflection__v1alpha__service_response__init(&items[i]);
        items[i].name = (char *)server->services[i];
        pointers[i] = &items[i];
    }
    list.n_service = server->service_count;
    list.service = pointers;
    response->message_response_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    response->list_services_response = &list;
    gb_rpc_call_send(call, &response->base);
}

static void answer_file(gb_rpc_call_t *call, response_t *response, span_t file)
{
    Grpc__Reflection__V1alpha__FileDescriptorResponse reply =
        GRPC__REFLECTION__V1ALPHA__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData bytes = {file.size, (uint8_t *)file.data};
    reply.n_file_descriptor_proto = 1;
    reply.file_descriptor_proto = &bytes;
    response->message_response_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    response->file_descriptor_response = &reply;
    gb_rpc_call_send(call, &response->base);
}

static void answer_error(gb_rpc_call_t *call, response_t *response, const char *what)
{
    Grpc__Reflection__V1alpha__ErrorResponse error =
        GRPC__REFLECTION__V1ALPHA__ERROR_RESPONSE__INIT;
    char text[160];
    snprintf(text, sizeof text, "nothing known about %.120s", what);
    error.error_code = GRPC_STATUS_NOT_FOUND;
    error.error_message = text;
    response->message_response_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    response->error_response = &error;
    gb_rpc_call_send(call, &response->base);
}

static void reflect(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    if (!in) {
        gb_rpc_call_finish(call);
        return;
    }
    const request_t *request = (const void *)in;
    response_t response = GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__INIT;
    response.valid_host = request->host;
    response.original_request = (request_t *)request;
    span_t file;
    switch ((int)request->message_request_case) {
    case GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        answer_services(ctx, call, &response);
        return;
    case GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        if (find_file(named, request->file_by_filename, &file))
            answer_file(call, &response, file);
        else
            answer_error(call, &response, request->file_by_filename);
        return;
    case GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        if (find_file(defines, request->file_containing_symbol, &file))
            answer_file(call, &response, file);
        else
            answer_error(call, &response, request->file_containing_symbol);
        return;
    default:
        answer_error(call, &response, "extensions: there are none");
    }
}

static const gb_rpc_method_t METHODS[] = {
    {"ServerReflectionInfo", GB_ROLE_ALL, 1, reflect, NULL},
    {NULL},
};

gb_status_t gb_rpc_reflection_add(gb_rpc_server_t *server)
{
    /* v1 is v1alpha under another name: the same bytes, so the same tables serve it. */
    server->reflection_v1 = grpc__reflection__v1alpha__server_reflection__descriptor;
    server->reflection_v1.name = "grpc.reflection.v1.ServerReflection";
    gb_status_t status = gb_rpc_server_add(
        server, &grpc__reflection__v1alpha__server_reflection__descriptor, METHODS, server);
    if (status == GB_OK)
        status = gb_rpc_server_add(server, &server->reflection_v1, METHODS, server);
    return status;
}
