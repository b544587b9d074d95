// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reads /sys/kernel/btf/MODULE, which a kernel with CONFIG_DEBUG_INFO_BTF_MODULES has for each module. The format is
 * in the exported header linux/btf.h, and in Documentation/bpf/btf.rst.
 *
 * A module's types go on where those of vmlinux end, and so do its strings: what stands in vmlinux already is
 * not said again. So a name may be in either file.
 */
#include <linux/btf.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/string.h>

#include "layout.h"

#define DIRECTORY "/sys/kernel/btf/"

/* No module's is as big; vmlinux' is not read as a whole. */
#define LARGEST (16U << 20)

struct types {
	/* The module's, in memory. */
	void *all;
	struct btf_header header;
	/* vmlinux', and where its strings are in there. */
	struct file *base;
	struct btf_header base_header;
};

static int read_at(struct file *file, void *to, size_t size, loff_t from)
{
	while (size) {
		/* sysfs gives a page at a time. */
		ssize_t got = kernel_read(file, to, size, &from);

		if (got <= 0)
			return got ? got : -EINVAL;
		to += got;
		size -= got;
	}
	return 0;
}

static int read_header(struct file *file, struct btf_header *header)
{
	int error = read_at(file, header, sizeof(*header), 0);

	if (error)
		return error;
	return header->magic == BTF_MAGIC && header->version == BTF_VERSION &&
			       header->hdr_len >= sizeof(*header) ?
		       0 :
		       -EINVAL;
}

/* Whether [offset, offset + length) of what follows the header is in a file of that size. */
static bool is_within(const struct btf_header *header, u32 offset, u32 length, loff_t size)
{
	return (u64)header->hdr_len + offset + length <= (u64)size;
}

static void close_types(struct types *types)
{
	kvfree(types->all);
	if (!IS_ERR_OR_NULL(types->base))
		filp_close(types->base, NULL);
}

static int read_module(struct types *types, const char *module)
{
	char path[sizeof(DIRECTORY) + MODULE_NAME_LEN];
	struct file *file;
	loff_t size;
	int error;

	snprintf(path, sizeof(path), DIRECTORY "%s", module);
	file = filp_open(path, O_RDONLY, 0);
	if (IS_ERR(file))
		return PTR_ERR(file);
	size = i_size_read(file_inode(file));
	error = read_header(file, &types->header);
	if (!error && (size > LARGEST ||
		       !is_within(&types->header, types->header.type_off, types->header.type_len, size) ||
		       !is_within(&types->header, types->header.str_off, types->header.str_len, size)))
		error = -EINVAL;
	if (!error) {
		types->all = kvmalloc(size, GFP_KERNEL);
		error = types->all ? read_at(file, types->all, size, 0) : -ENOMEM;
	}
	filp_close(file, NULL);
	return error;
}

static int open_types(struct types *types, const char *module)
{
	int error = read_module(types, module);

	if (error)
		return error;
	types->base = filp_open(DIRECTORY "vmlinux", O_RDONLY, 0);
	if (IS_ERR(types->base))
		return PTR_ERR(types->base);
	return read_header(types->base, &types->base_header);
}

static bool is_named(const struct types *types, u32 at, const char *name)
{
	size_t size = strlen(name) + 1;
	u32 base = types->base_header.str_len;
	const struct btf_header *header = &types->header;
	char found[64];

	if (size > sizeof(found))
		return false;
	if (at < base) {
		loff_t from = (loff_t)types->base_header.hdr_len + types->base_header.str_off + at;

		if (size > base - at || read_at(types->base, found, size, from))
			return false;
	} else {
		at -= base;
		if (at > header->str_len || size > header->str_len - at)
			return false;
		memcpy(found, types->all + header->hdr_len + header->str_off + at, size);
	}
	return !memcmp(found, name, size);
}

/* Bytes of what follows a type's head, or an error for a kind that is not known. */
static ssize_t size_of_rest(const struct btf_type *type)
{
	u32 entries = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return 0;
	case BTF_KIND_INT:
		return sizeof(u32);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return entries * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return entries * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return entries * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO:
		return entries * sizeof(struct btf_param);
	case BTF_KIND_VAR:
		return sizeof(struct btf_var);
	case BTF_KIND_DATASEC:
		return entries * sizeof(struct btf_var_secinfo);
	case BTF_KIND_DECL_TAG:
		return sizeof(struct btf_decl_tag);
	default:
		return -EINVAL;
	}
}

/* The place of a member in bytes; -EINVAL if it is a bit field. */
static int offset_of(const struct btf_type *type, const struct btf_member *member, u32 *offset)
{
	u32 bits = member->offset;

	if (BTF_INFO_KFLAG(type->info)) {
		if (BTF_MEMBER_BITFIELD_SIZE(member->offset))
			return -EINVAL;
		bits = BTF_MEMBER_BIT_OFFSET(member->offset);
	}
	if (bits % 8)
		return -EINVAL;
	*offset = bits / 8;
	return 0;
}

static int find_member(const struct types *types, const struct btf_type *type, struct member *wanted)
{
	const struct btf_member *members = (const void *)(type + 1);
	u32 i;

	for (i = 0; i < BTF_INFO_VLEN(type->info); i++) {
		if (is_named(types, members[i].name_off, wanted->name))
			return offset_of(type, &members[i], &wanted->offset);
	}
	return -ENOENT;
}

/* The structure of that name. Two of one name would be two layouts. */
static const struct btf_type *find_structure(const struct types *types, const char *name)
{
	const void *at = types->all + types->header.hdr_len + types->header.type_off;
	const void *end = at + types->header.type_len;
	const struct btf_type *found = NULL;

	while (at < end) {
		const struct btf_type *type = at;
		ssize_t rest;

		if (end - at < sizeof(*type))
			return ERR_PTR(-EINVAL);
		at += sizeof(*type);
		rest = size_of_rest(type);
		if (rest < 0 || rest > end - at)
			return ERR_PTR(-EINVAL);
		at += rest;
		if (BTF_INFO_KIND(type->info) != BTF_KIND_STRUCT || !is_named(types, type->name_off, name))
			continue;
		if (found)
			return ERR_PTR(-EINVAL);
		found = type;
	}
	return found ? found : ERR_PTR(-ENOENT);
}

int layout_find(const char *module, struct member *members, size_t count)
{
	struct types types = {};
	int error = open_types(&types, module);
	size_t i;

	for (i = 0; !error && i < count; i++) {
		const struct btf_type *type = find_structure(&types, members[i].structure);

		error = IS_ERR(type) ? PTR_ERR(type) : find_member(&types, type, &members[i]);
	}
	close_types(&types);
	return error;
}
